//! Event streams in files of their own.
//!
//! A batch's place in its stream is its offset, so writing one twice writes the
//! same bytes to the same place. A stream is a folder of segments, each named by
//! the sequence number and the offset of its first batch; a batch lives in the
//! last segment that starts at or before its offset. Only what the log has
//! committed is ever read: bytes behind a stream's end mean nothing.
//!
//! ```text
//!  0 magic     u32   "STFE"
//!  4 checksum  u32   CRC32C of the header's facts, the offset and the bytes
//!  8 length    u32
//! 12 count     u32
//! 16 first     u64
//! 24 time      i64
//! 32 stream    u32
//! 36 partition u32
//! 40 bytes
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io;
use std::ops::Bound;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use quick_cache::sync::Cache;
use steadfast_core::clock::Timestamp;
use steadfast_core::id::{Offset, Partition, Sequence, Stream};

use super::folder::sync_folder;
use super::record::LoggedBatch;
use crate::engine::{BATCH_HEADER_BYTES, EventBatch};
use crate::error::{Error, Result};

const MAGIC: [u8; 4] = *b"STFE";

/// Files that are kept open.
const OPEN_FILES: usize = 256;

/// All event files of a folder.
pub(super) struct EventFiles {
    root: PathBuf,
    segment_bytes: u64,
    streams: Mutex<HashMap<(Partition, Stream), Arc<StreamFiles>>>,
    open: Cache<PathBuf, Arc<File>>,
}

/// The files of one stream.
pub(super) struct StreamFiles {
    partition: Partition,
    folder: PathBuf,
    /// Sequence number of each segment's first batch, by its offset.
    segments: Mutex<BTreeMap<u64, u64>>,
    /// Where a reader stopped: most go on from there.
    hint: Mutex<(Sequence, Offset)>,
}

/// Files and folders that have to be synced.
#[derive(Default)]
pub(super) struct Touched {
    files: HashMap<PathBuf, Arc<File>>,
    folders: BTreeSet<PathBuf>,
}

impl EventFiles {
    pub(super) fn new(root: &Path, segment_bytes: u64) -> Self {
        Self {
            root: root.to_path_buf(),
            segment_bytes,
            streams: Mutex::new(HashMap::new()),
            open: Cache::new(OPEN_FILES),
        }
    }

    /// Writes a batch to its place; `end` is where the stream ended before its
    /// group.
    pub(super) fn write(
        &self,
        partition: Partition,
        batch: &EventBatch,
        end: u64,
        touched: &mut Touched,
    ) -> Result<()> {
        let files = self.stream(partition, batch.stream, end)?;
        let (base, path) = self.place(&files, batch, touched)?;
        let file = match touched.files.get(&path) {
            Some(file) => Arc::clone(file),
            None => self.file(&path)?,
        };
        let at = batch.offset.0 - base;
        file.write_all_at(&header(partition, batch), at)
            .and_then(|()| file.write_all_at(&batch.bytes, at + BATCH_HEADER_BYTES as u64))
            .map_err(|e| Error::io(&path, "write", e))?;
        touched.files.insert(path, file);
        Ok(())
    }

    /// Makes everything that was written durable, names included.
    pub(super) fn sync(&self, touched: Touched) -> Result<()> {
        for (path, file) in touched.files {
            file.sync_data().map_err(|e| Error::io(&path, "sync", e))?;
        }
        touched
            .folders
            .iter()
            .try_for_each(|path| sync_folder(path))
    }

    /// The files of a stream that ends at `end`. When they are first looked at,
    /// segments that begin behind the end are removed: their group was never
    /// committed.
    pub(super) fn stream(
        &self,
        partition: Partition,
        stream: Stream,
        end: u64,
    ) -> Result<Arc<StreamFiles>> {
        let mut streams = self.streams.lock();
        if let Some(files) = streams.get(&(partition, stream)) {
            return Ok(Arc::clone(files));
        }
        let name = format!("{:08x}-{:08x}", partition.0, stream.0);
        let files = Arc::new(StreamFiles::open(partition, self.root.join(name))?);
        files.forget_from(end);
        streams.insert((partition, stream), Arc::clone(&files));
        Ok(files)
    }

    /// Removes the segments that begin at or after an offset.
    pub(super) fn forget_from(&self, partition: Partition, stream: Stream, end: u64) {
        if let Ok(files) = self.stream(partition, stream, end) {
            files.forget_from(end);
        }
    }

    /// Removes the segments whose events are all before `first`.
    pub(super) fn trim(&self, partition: Partition, stream: Stream, first: Sequence, end: u64) {
        if let Ok(files) = self.stream(partition, stream, end) {
            files.trim(first);
        }
    }

    /// Opens a segment for reading or writing, or takes it from the open ones.
    pub(super) fn file(&self, path: &Path) -> Result<Arc<File>> {
        if let Some(file) = self.open.get(path) {
            return Ok(file);
        }
        let file = File::options().read(true).write(true).open(path);
        let file = Arc::new(file.map_err(|e| Error::io(path, "open", e))?);
        self.open.insert(path.to_path_buf(), Arc::clone(&file));
        Ok(file)
    }

    /// The segment that a batch belongs to, created if need be.
    fn place(
        &self,
        files: &StreamFiles,
        batch: &EventBatch,
        touched: &mut Touched,
    ) -> Result<(u64, PathBuf)> {
        let offset = batch.offset.0;
        let mut segments = files.segments.lock();
        let found = segments.range(..=offset).next_back();
        if let Some((base, first)) = found.filter(|(base, _)| offset - **base < self.segment_bytes)
        {
            return Ok((*base, files.path(*base, *first)));
        }
        let path = files.path(offset, batch.first.0);
        let create = || -> io::Result<()> {
            fs::create_dir_all(&files.folder)?;
            File::create_new(&path).map(drop)
        };
        create().map_err(|e| Error::io(&path, "create", e))?;
        self.open.remove(&path);
        touched.folders.insert(self.root.clone());
        touched.folders.insert(files.folder.clone());
        segments.insert(offset, batch.first.0);
        Ok((offset, path))
    }
}

impl StreamFiles {
    fn open(partition: Partition, folder: PathBuf) -> Result<Self> {
        let mut segments = BTreeMap::new();
        match fs::read_dir(&folder) {
            Ok(entries) => {
                for entry in entries {
                    let entry = entry.map_err(|e| Error::io(&folder, "list", e))?;
                    let name = entry.file_name();
                    let name = name.to_str().and_then(parse_name);
                    if let Some((first, base)) = name {
                        segments.insert(base, first);
                    }
                }
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(Error::io(&folder, "list", e)),
        }
        Ok(Self {
            partition,
            folder,
            segments: Mutex::new(segments),
            hint: Mutex::new((Sequence::default(), Offset::default())),
        })
    }

    /// The path of the segment that starts here.
    pub(super) fn path(&self, base: u64, first: u64) -> PathBuf {
        self.folder.join(format!("{first:016x}-{base:016x}.seg"))
    }

    /// The segment that holds `offset`: its start, its path, and where the next
    /// one starts.
    pub(super) fn segment_of(&self, offset: u64) -> Option<(u64, PathBuf, u64)> {
        let segments = self.segments.lock();
        let (base, first) = segments.range(..=offset).next_back()?;
        let behind = (Bound::Excluded(offset), Bound::Unbounded);
        let next = segments.range(behind).next();
        let limit = next.map_or(u64::MAX, |(next, _)| *next);
        Some((*base, self.path(*base, *first), limit))
    }

    /// Starts of all segments, in order, each with its first sequence number.
    pub(super) fn starts(&self) -> Vec<(Offset, Sequence)> {
        let segments = self.segments.lock();
        let starts = segments.iter();
        starts.map(|(b, f)| (Offset(*b), Sequence(*f))).collect()
    }

    /// Where a reader that goes on at `from` left off.
    pub(super) fn hint(&self, from: Sequence) -> Option<Offset> {
        let (sequence, offset) = *self.hint.lock();
        (sequence == from && offset.0 > 0).then_some(offset)
    }

    /// Remembers where a reader stops.
    pub(super) fn set_hint(&self, next: Sequence, end: Offset) {
        *self.hint.lock() = (next, end);
    }

    /// Reads a batch's header, if there is a plausible one.
    pub(super) fn parse_header(&self, bytes: &[u8], offset: Offset) -> Option<LoggedBatch> {
        let bytes: &[u8; BATCH_HEADER_BYTES] = bytes.first_chunk()?;
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        if bytes[..4] != MAGIC || u32_at(36) != self.partition.0 {
            return None;
        }
        Some(LoggedBatch {
            stream: Stream(u32_at(32)),
            first: Sequence(u64_at(16)),
            offset,
            count: u32_at(12),
            time: Timestamp(u64_at(24) as i64),
            checksum: u32_at(4),
            length: u32_at(8),
            inline: None,
        })
    }

    fn forget_from(&self, end: u64) {
        let mut segments = self.segments.lock();
        for (base, first) in segments.split_off(&end) {
            remove(&self.path(base, first));
        }
    }

    fn trim(&self, first: Sequence) {
        let mut segments = self.segments.lock();
        while segments.len() > 1 {
            let second = segments.values().nth(1);
            if second.is_none_or(|second| *second > first.0) {
                return;
            }
            if let Some((base, first)) = segments.pop_first() {
                remove(&self.path(base, first));
            }
        }
    }
}

/// Bytes of a stream's files, read ahead.
pub(super) struct Window<'a> {
    events: &'a EventFiles,
    files: &'a StreamFiles,
    ahead: usize,
    start: u64,
    bytes: Bytes,
}

impl<'a> Window<'a> {
    pub(super) fn new(events: &'a EventFiles, files: &'a StreamFiles, ahead: usize) -> Self {
        Self {
            events,
            files,
            ahead,
            start: 0,
            bytes: Bytes::new(),
        }
    }

    /// The batch at an offset, with its bytes if `whole`.
    pub(super) fn batch(&mut self, offset: Offset, whole: bool) -> Result<(LoggedBatch, Bytes)> {
        let head = self.read(offset.0, BATCH_HEADER_BYTES)?;
        let Some(batch) = self.files.parse_header(&head, offset) else {
            return Err(self.damaged(offset, "a batch should start here"));
        };
        if !whole {
            return Ok((batch, Bytes::new()));
        }
        let length = batch.length as usize;
        let bytes = self.read(offset.0, BATCH_HEADER_BYTES + length)?;
        Ok((batch, bytes.slice(BATCH_HEADER_BYTES..)))
    }

    /// An error that names the file and the place in it.
    pub(super) fn damaged(&self, offset: Offset, what: &str) -> Error {
        match self.files.segment_of(offset.0) {
            Some((base, path, _)) => Error::corrupt(&path, offset.0 - base, what),
            None => Error::corrupt(&self.files.folder, offset.0, "the segment is missing"),
        }
    }

    fn read(&mut self, offset: u64, length: usize) -> Result<Bytes> {
        let end = self.start + self.bytes.len() as u64;
        if offset < self.start || offset + length as u64 > end {
            self.load(offset, length)?;
        }
        let from = (offset - self.start) as usize;
        match self.bytes.get(from..from + length) {
            Some(_) => Ok(self.bytes.slice(from..from + length)),
            None => Err(self.damaged(Offset(offset), "the file ends too early")),
        }
    }

    fn load(&mut self, offset: u64, length: usize) -> Result<()> {
        let Some((base, path, limit)) = self.files.segment_of(offset) else {
            return Err(self.damaged(Offset(offset), ""));
        };
        let file = self.events.file(&path)?;
        let room = usize::try_from(limit - offset).unwrap_or(usize::MAX);
        let mut bytes = vec![0; self.ahead.min(room).max(length)];
        let mut filled = 0;
        while filled < bytes.len() {
            let at = offset - base + filled as u64;
            match file.read_at(&mut bytes[filled..], at) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io(&path, "read", e)),
            }
        }
        bytes.truncate(filled);
        self.start = offset;
        self.bytes = bytes.into();
        Ok(())
    }
}

fn header(partition: Partition, batch: &EventBatch) -> [u8; BATCH_HEADER_BYTES] {
    let mut out = [0; BATCH_HEADER_BYTES];
    out[..4].copy_from_slice(&MAGIC);
    out[4..8].copy_from_slice(&batch.checksum().to_le_bytes());
    out[8..12].copy_from_slice(&(batch.bytes.len() as u32).to_le_bytes());
    out[12..16].copy_from_slice(&batch.count.to_le_bytes());
    out[16..24].copy_from_slice(&batch.first.0.to_le_bytes());
    out[24..32].copy_from_slice(&batch.time.0.to_le_bytes());
    out[32..36].copy_from_slice(&batch.stream.0.to_le_bytes());
    out[36..].copy_from_slice(&partition.0.to_le_bytes());
    out
}

/// First sequence number and offset of a segment, from its name.
fn parse_name(name: &str) -> Option<(u64, u64)> {
    let (first, base) = name.strip_suffix(".seg")?.split_once('-')?;
    let parse = |text| u64::from_str_radix(text, 16).ok();
    Some((parse(first)?, parse(base)?))
}

fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path) {
        tracing::warn!(path = %path.display(), %error, "could not remove an event file");
    }
}

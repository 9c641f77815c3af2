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

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io;
use std::ops::Bound;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use quick_cache::sync::Cache;
use steadfast_core::clock::Timestamp;
use steadfast_core::id::{Offset, Partition, Sequence, StreamId};
use steadfast_storage::engine::{BATCH_HEADER_BYTES, EventBatch};
use steadfast_storage::{Error, Result, private};

use crate::folders::sync_folder;
use crate::record::LoggedBatch;

const MAGIC: [u8; 4] = *b"STFE";

/// Files that are kept open.
const OPEN_FILES: usize = 256;

/// All event files of a folder.
pub(crate) struct EventFiles {
    root: PathBuf,
    segment_bytes: u64,
    /// Where each stream began and ended when the folder was opened.
    ends: HashMap<(Partition, StreamId), (Sequence, Offset)>,
    streams: Mutex<HashMap<(Partition, StreamId), Arc<StreamFiles>>>,
    /// Open files of each kind of user. A failed sync is reported once per open
    /// file, so each syncing user needs its own.
    open: [Cache<PathBuf, Arc<File>>; 2],
}

/// Who uses a file.
#[derive(Clone, Copy)]
pub(crate) enum FileUser {
    Log = 0,
    Flush = 1,
}

/// The files of one stream.
pub(crate) struct StreamFiles {
    partition: Partition,
    folder: PathBuf,
    /// Sequence number of each segment's first batch, by its offset.
    segments: Mutex<BTreeMap<u64, u64>>,
    /// How many segments were created, and how many of their names are durable.
    created: AtomicU64,
    synced: AtomicU64,
    /// Where a reader stopped: most go on from there.
    hint: Mutex<(Sequence, Offset)>,
}

/// Files and folders that have to be synced.
#[derive(Default)]
pub(crate) struct UnsyncedFiles {
    files: BTreeMap<PathBuf, Arc<File>>,
    /// Streams with new names, and how many segments they had created by then.
    names: BTreeMap<PathBuf, (Arc<StreamFiles>, u64)>,
}

impl EventFiles {
    pub(crate) fn new(
        root: &Path,
        segment_bytes: u64,
        ends: HashMap<(Partition, StreamId), (Sequence, Offset)>,
    ) -> Self {
        Self {
            root: root.to_path_buf(),
            segment_bytes,
            ends,
            streams: Mutex::new(HashMap::new()),
            open: [Cache::new(OPEN_FILES), Cache::new(OPEN_FILES)],
        }
    }

    /// Writes a batch to its place.
    pub(crate) fn write(
        &self,
        partition: Partition,
        batch: &EventBatch,
        user: FileUser,
        touched: &mut UnsyncedFiles,
    ) -> Result<()> {
        let files = self.stream(partition, batch.stream)?;
        let (base, path) = self.place(&files, batch)?;
        // Another thread may have created the segment and not synced its name yet:
        // durable bytes need a durable name.
        let created = files.created.load(Ordering::Acquire);
        if created > files.synced.load(Ordering::Acquire) {
            let names = (Arc::clone(&files), created);
            touched.names.insert(files.folder.clone(), names);
        }
        let file = match touched.files.get(&path) {
            Some(file) => Arc::clone(file),
            None => self.file(&path, user)?,
        };
        let at = batch.offset.0 - base;
        file.write_all_at(&header(partition, batch), at)
            .and_then(|()| file.write_all_at(&batch.bytes, at + BATCH_HEADER_BYTES as u64))
            .map_err(|e| Error::io(&path, "write", e))?;
        touched.files.insert(path, file);
        Ok(())
    }

    /// Makes everything that was written durable, names included.
    pub(crate) fn sync(&self, touched: UnsyncedFiles) -> Result<()> {
        for (path, file) in touched.files {
            file.sync_data().map_err(|e| Error::io(&path, "sync", e))?;
        }
        if !touched.names.is_empty() {
            sync_folder(&self.root)?;
        }
        for (path, (files, created)) in touched.names {
            sync_folder(&path)?;
            files.synced.fetch_max(created, Ordering::AcqRel);
        }
        Ok(())
    }

    /// The files of a stream. When they are first looked at, segments that begin
    /// behind the stream's end are removed: their group was never committed.
    pub(crate) fn stream(
        &self,
        partition: Partition,
        stream: StreamId,
    ) -> Result<Arc<StreamFiles>> {
        let mut streams = self.streams.lock();
        if let Some(files) = streams.get(&(partition, stream)) {
            return Ok(Arc::clone(files));
        }
        let name = format!("{:08x}-{:08x}", partition.0, stream.0);
        let files = Arc::new(StreamFiles::open(partition, self.root.join(name))?);
        let (first, end) = self
            .ends
            .get(&(partition, stream))
            .copied()
            .unwrap_or_default();
        files.forget_from(end.0)?;
        files.trim(first);
        streams.insert((partition, stream), Arc::clone(&files));
        Ok(files)
    }

    /// Removes the segments that begin at or after an offset.
    pub(crate) fn forget_from(
        &self,
        partition: Partition,
        stream: StreamId,
        end: u64,
    ) -> Result<()> {
        self.stream(partition, stream)?.forget_from(end)
    }

    /// Removes the segments whose events are all before `first`.
    pub(crate) fn trim(&self, partition: Partition, stream: StreamId, first: Sequence) {
        if let Ok(files) = self.stream(partition, stream) {
            files.trim(first);
        }
    }

    /// Opens a segment for reading or writing, or takes it from the open ones.
    pub(crate) fn file(&self, path: &Path, user: FileUser) -> Result<Arc<File>> {
        let open = &self.open[user as usize];
        if let Some(file) = open.get(path) {
            return Ok(file);
        }
        let file = File::options().read(true).write(true).open(path);
        let file = Arc::new(file.map_err(|e| Error::io(path, "open", e))?);
        open.insert(path.to_path_buf(), Arc::clone(&file));
        Ok(file)
    }

    fn length(&self, path: &Path) -> Result<u64> {
        let metadata = fs::metadata(path);
        Ok(metadata.map_err(|e| Error::io(path, "measure", e))?.len())
    }

    /// The segment that a batch belongs to, created if need be.
    fn place(&self, files: &StreamFiles, batch: &EventBatch) -> Result<(u64, PathBuf)> {
        let offset = batch.offset.0;
        let mut segments = files.segments.lock();
        if let Some((base, first)) = segments.range(..=offset).next_back() {
            let path = files.path(*base, *first);
            // A full segment still takes batches that belong before others that
            // it has already: readers look for them here.
            let has_room = offset - base < self.segment_bytes;
            if has_room || self.length(&path)? > offset - base {
                return Ok((*base, path));
            }
        }
        let path = files.path(offset, batch.first.0);
        let create = || -> io::Result<()> {
            private::create_dir_all(&files.folder)?;
            private::create_new(&path).map(drop)
        };
        create().map_err(|e| Error::io(&path, "create", e))?;
        for open in &self.open {
            open.remove(&path);
        }
        files.created.fetch_add(1, Ordering::AcqRel);
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
            // What was found there may have names that are not durable.
            created: AtomicU64::new(1),
            synced: AtomicU64::new(0),
            hint: Mutex::new((Sequence::default(), Offset::default())),
        })
    }

    /// The path of the segment that starts here.
    pub(crate) fn path(&self, base: u64, first: u64) -> PathBuf {
        self.folder.join(format!("{first:016x}-{base:016x}.seg"))
    }

    /// The segment that holds `offset`: its start, its path, and where the next
    /// one starts.
    pub(crate) fn segment_of(&self, offset: u64) -> Option<(u64, PathBuf, u64)> {
        let segments = self.segments.lock();
        let (base, first) = segments.range(..=offset).next_back()?;
        let behind = (Bound::Excluded(offset), Bound::Unbounded);
        let next = segments.range(behind).next();
        let limit = next.map_or(u64::MAX, |(next, _)| *next);
        Some((*base, self.path(*base, *first), limit))
    }

    /// Starts of all segments, in order, each with its first sequence number.
    pub(crate) fn starts(&self) -> Vec<(Offset, Sequence)> {
        let segments = self.segments.lock();
        let starts = segments.iter();
        starts.map(|(b, f)| (Offset(*b), Sequence(*f))).collect()
    }

    /// Where a reader that goes on at `from` left off.
    pub(crate) fn hint(&self, from: Sequence) -> Option<Offset> {
        let (sequence, offset) = *self.hint.lock();
        (sequence == from && offset.0 > 0).then_some(offset)
    }

    /// Remembers where a reader stops.
    pub(crate) fn set_hint(&self, next: Sequence, end: Offset) {
        *self.hint.lock() = (next, end);
    }

    /// Reads a batch's header, if there is a plausible one.
    pub(crate) fn parse_header(&self, bytes: &[u8], offset: Offset) -> Option<LoggedBatch> {
        let bytes: &[u8; BATCH_HEADER_BYTES] = bytes.first_chunk()?;
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        if bytes[..4] != MAGIC || u32_at(36) != self.partition.0 {
            return None;
        }
        Some(LoggedBatch {
            stream: StreamId(u32_at(32)),
            first: Sequence(u64_at(16)),
            offset,
            count: u32_at(12),
            time: Timestamp(u64_at(24) as i64),
            checksum: u32_at(4),
            length: u32_at(8),
            inline: None,
        })
    }

    /// Durably, because a segment that came back would hide the batches that are
    /// written in its place from now on.
    fn forget_from(&self, end: u64) -> Result<()> {
        let mut segments = self.segments.lock();
        let forgotten = segments.split_off(&end);
        for (base, first) in &forgotten {
            let path = self.path(*base, *first);
            fs::remove_file(&path).map_err(|e| Error::io(&path, "remove", e))?;
        }
        if forgotten.is_empty() {
            Ok(())
        } else {
            sync_folder(&self.folder)
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
pub(crate) struct ReadAhead<'a> {
    events: &'a EventFiles,
    files: &'a StreamFiles,
    ahead: usize,
    start: u64,
    bytes: Bytes,
}

impl<'a> ReadAhead<'a> {
    pub(crate) fn new(events: &'a EventFiles, files: &'a StreamFiles, ahead: usize) -> Self {
        Self {
            events,
            files,
            ahead,
            start: 0,
            bytes: Bytes::new(),
        }
    }

    /// The batch at an offset, with its bytes if `whole`.
    pub(crate) fn batch(&mut self, offset: Offset, whole: bool) -> Result<(LoggedBatch, Bytes)> {
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
    pub(crate) fn damaged(&self, offset: Offset, what: &str) -> Error {
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
        let file = self.events.file(&path, FileUser::Flush)?;
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
        tracing::warn!(
            event = "storage.file_kept",
            path = %path.display(),
            %error,
            "could not remove an event file",
        );
    }
}

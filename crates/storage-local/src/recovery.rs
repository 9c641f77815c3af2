//! Recovers a folder when it is opened.
//!
//! The control state is read from the tables, then the log is read from the mark
//! that its last group carries. One group was under way at most, so a bad record
//! is the torn tail unless a valid one with a higher number exists: then the
//! folder is damaged, and it is refused, never skipped.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::clock::Clock;
use steadfast_storage::{Error, Result};

use crate::commit_log::LiveSegment;
use crate::control::{ControlState, Fence, StreamControl};
use crate::record::{ALIGNMENT, HEADER_BYTES, Header, LogItem, MAGIC, items};
use crate::segment::{Segment, SegmentFile};
use crate::tables::{ControlRow, Tables};

/// A log that was read to its end.
pub(crate) struct RecoveredLog {
    pub(crate) control: ControlState,
    pub(crate) segments: VecDeque<LiveSegment>,
    pub(crate) next_segment: u64,
    pub(crate) at: u64,
    pub(crate) previous: u32,
    pub(crate) mark: u64,
    pub(crate) spares: Vec<SegmentFile>,
    pub(crate) next_slot: u64,
}

/// A log file that holds a segment.
struct SegmentCandidate {
    slot: SegmentFile,
    number: u64,
    first_group: u64,
}

/// Reads tables and log.
pub(crate) fn recover(
    log: &Path,
    salt: u64,
    tables: &Tables,
    clock: Arc<dyn Clock>,
) -> Result<RecoveredLog> {
    let (control, covered) = load_control(tables, log, clock)?;
    let (mut candidates, mut spares, next_slot) = list_slots(log, salt)?;
    let mut recovered = RecoveredLog {
        control,
        segments: VecDeque::new(),
        next_segment: candidates.last().map_or(1, |last| last.number + 1),
        at: 0,
        previous: 0,
        mark: 1,
        spares: Vec::new(),
        next_slot,
    };
    if let Some(last) = candidates.last() {
        recovered.mark = last_mark(last, salt)?;
        let start = first_needed(&candidates, recovered.mark, log)?;
        spares.extend(candidates.drain(..start).map(|candidate| candidate.slot));
    }
    recovered.read(candidates, salt, log)?;
    for spare in &spares {
        // Its first record may be torn, but nothing can have followed a torn one.
        let newest = recovered.next_segment - 1;
        check_tail(spare, 0, salt, |header| header.segment > newest)?;
    }
    recovered.spares = spares;
    recovered.check_complete(covered, log)?;
    Ok(recovered)
}

/// Control rows, and the group that comes after what they cover.
fn load_control(tables: &Tables, log: &Path, clock: Arc<dyn Clock>) -> Result<(ControlState, u64)> {
    let mut control = ControlState::new(clock);
    let mut covered = 1;
    let damaged = |_| Error::corrupt(log, 0, "a control row is malformed");
    for row in tables.control()? {
        match row {
            ControlRow::Group(bytes) => {
                let bytes: [u8; 8] = bytes[..].try_into().map_err(|_| damaged(bytes))?;
                covered = u64::from_le_bytes(bytes);
            }
            ControlRow::Fence(partition, bytes) => {
                let fence = Fence::decode(bytes).map_err(|_| damaged(Bytes::new()))?;
                control.partitions.insert(partition, fence);
            }
            ControlRow::Stream(partition, stream, bytes) => {
                let ends = StreamControl::decode(bytes).map_err(|_| damaged(Bytes::new()))?;
                control.fence(partition).streams.insert(stream, ends);
            }
            ControlRow::Record(key, bytes) => {
                let version = bytes.first_chunk().copied().map(u64::from_le_bytes);
                let version = version.ok_or_else(|| damaged(Bytes::new()))?;
                control.records.insert(key, version, bytes.slice(8..));
            }
        }
    }
    Ok((control, covered))
}

/// The log's files: those that begin with a valid record, by segment, and others.
fn list_slots(log: &Path, salt: u64) -> Result<(Vec<SegmentCandidate>, Vec<SegmentFile>, u64)> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(log).map_err(|e| Error::io(log, "list", e))? {
        let path = entry.map_err(|e| Error::io(log, "list", e))?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let id = name.and_then(|name| name.strip_suffix(".log")?.parse::<u64>().ok());
        if let Some(id) = id {
            paths.push((id, path));
        }
    }
    paths.sort();
    let next_slot = paths.last().map_or(0, |(id, _)| id + 1);
    let (mut candidates, mut spares) = (Vec::new(), Vec::new());
    for (_, path) in paths {
        let slot = SegmentFile::open(&path)?;
        match read_record(&slot, 0, salt)? {
            Some((header, _)) => candidates.push(SegmentCandidate {
                slot,
                number: header.segment,
                first_group: header.number,
            }),
            None => spares.push(slot),
        }
    }
    candidates.sort_by_key(|candidate| candidate.number);
    Ok((candidates, spares, next_slot))
}

/// The record at a place, if there is a valid one.
fn read_record(slot: &SegmentFile, at: u64, salt: u64) -> Result<Option<(Header, Bytes)>> {
    let room = slot.size.saturating_sub(at);
    if room < HEADER_BYTES as u64 {
        return Ok(None);
    }
    let head = slot.read(at, HEADER_BYTES)?;
    let Some(header) = Header::decode(&head).filter(|header| header.salt == salt) else {
        return Ok(None);
    };
    if header.size() > room {
        return Ok(None);
    }
    let payload = slot.read(at + HEADER_BYTES as u64, header.length as usize)?;
    Ok(header.fits(&payload).then_some((header, payload)))
}

/// The mark that the newest group of the newest segment carries.
fn last_mark(last: &SegmentCandidate, salt: u64) -> Result<u64> {
    let (mut at, mut mark, mut expected) = (0, 1, last.first_group);
    while let Some((header, _)) = read_record(&last.slot, at, salt)? {
        if header.segment != last.number || header.number != expected {
            break;
        }
        mark = header.mark;
        expected += 1;
        at += header.size();
    }
    Ok(mark)
}

/// The index of the segment that holds the mark.
fn first_needed(candidates: &[SegmentCandidate], mark: u64, log: &Path) -> Result<usize> {
    let later = candidates.partition_point(|candidate| candidate.first_group <= mark);
    let start = later.checked_sub(1).ok_or_else(|| {
        Error::corrupt(log, 0, format!("the segment with group {mark} is missing"))
    })?;
    let needed = &candidates[start..];
    for pair in needed.windows(2) {
        if pair[1].number != pair[0].number + 1 {
            let what = format!("segment {} is missing or damaged", pair[0].number + 1);
            return Err(Error::corrupt(&pair[0].slot.path, pair[0].slot.size, what));
        }
    }
    Ok(start)
}

impl RecoveredLog {
    /// Reads all segments that are needed, in order.
    fn read(&mut self, candidates: Vec<SegmentCandidate>, salt: u64, log: &Path) -> Result<()> {
        let mut expected = candidates.first().map(|first| first.first_group);
        let mut candidates = candidates.into_iter().peekable();
        while let Some(candidate) = candidates.next() {
            let segment = Arc::new(Segment {
                number: candidate.number,
                slot: candidate.slot,
            });
            let next = self.read_segment(&segment, &mut expected, salt)?;
            let group = expected.unwrap_or(1);
            match candidates.peek() {
                // A segment ends where a group did not fit any more.
                Some(following) if following.first_group != group => {
                    let what = format!("group {group} is damaged, later ones are valid");
                    return Err(Error::corrupt(&segment.slot.path, next, what));
                }
                Some(_) => {}
                None => check_tail(&segment.slot, next, salt, |header| {
                    header.segment == segment.number && header.number > group
                })?,
            }
            self.at = next;
            self.segments.push_back(LiveSegment {
                last_group: group - 1,
                segment,
            });
        }
        self.control.next_group = expected.unwrap_or(1);
        self.sync_tail()?;
        self.settle(log)
    }

    /// Applies the records of one segment; answers where they end.
    fn read_segment(
        &mut self,
        segment: &Arc<Segment>,
        expected: &mut Option<u64>,
        salt: u64,
    ) -> Result<u64> {
        let mut at = 0;
        while let Some((header, payload)) = read_record(&segment.slot, at, salt)? {
            let is_first = self.segments.is_empty() && at == 0;
            let follows = header.segment == segment.number
                && Some(header.number) == *expected
                && (is_first || header.previous == self.previous);
            if !follows {
                break;
            }
            if header.number >= self.mark {
                self.apply(segment, at, &header, &payload)?;
            }
            self.previous = header.checksum;
            *expected = Some(header.number + 1);
            at += header.size();
        }
        Ok(at)
    }

    fn apply(
        &mut self,
        segment: &Arc<Segment>,
        at: u64,
        header: &Header,
        payload: &Bytes,
    ) -> Result<()> {
        let damaged = |what: String| Error::corrupt(&segment.slot.path, at, what);
        let found = items(payload).map_err(|_| damaged("the group is malformed".into()))?;
        for (range, item) in found {
            if let LogItem::Entry(entry) = &item {
                let fence = self.control.fence(entry.partition);
                // The first entry may be older than the control row; from there on
                // every number must follow.
                let follows = match fence.unflushed.back() {
                    Some(last) => entry.number == last.number.next(),
                    None => entry.number <= fence.last.next(),
                };
                if !follows {
                    let (partition, number) = (entry.partition, entry.number);
                    return Err(damaged(format!(
                        "entry {number} of partition {partition} does not follow"
                    )));
                }
            }
            let start = at + HEADER_BYTES as u64;
            self.control
                .apply(item, header.number, segment, start, range);
        }
        Ok(())
    }

    /// A process that was killed may have written its last group without syncing
    /// it. From here on we act on that group, so it has to be durable.
    fn sync_tail(&self) -> Result<()> {
        let Some(last) = self.segments.back() else {
            return Ok(());
        };
        let slot = &last.segment.slot;
        let synced = slot.file.sync_data();
        synced.map_err(|e| Error::io(&slot.path, "sync", e))
    }

    /// Forgets what the tables have already; the rest must follow it densely. The
    /// mark may lie behind a partition's own flushes, because it is one for all.
    fn settle(&mut self, log: &Path) -> Result<()> {
        for (partition, fence) in &mut self.control.partitions {
            drop(fence.flushed(fence.flushed));
            let rest = fence.unflushed.front().map(|entry| entry.number);
            let is_dense = match rest {
                Some(number) => number == fence.flushed.next(),
                None => fence.last == fence.flushed,
            };
            if !is_dense {
                let missing = fence.flushed.next();
                let what = format!("entry {missing} of partition {partition} is missing");
                return Err(Error::corrupt(log, 0, what));
            }
        }
        Ok(())
    }

    /// The log must reach at least as far as the tables do.
    fn check_complete(&self, covered: u64, log: &Path) -> Result<()> {
        if self.control.next_group >= covered {
            return Ok(());
        }
        let last = covered - 1;
        Err(Error::corrupt(
            log,
            0,
            format!("the log ends before group {last}"),
        ))
    }
}

/// Refuses a log whose bad record is not its last: a later one is behind `from`.
fn check_tail(
    slot: &SegmentFile,
    from: u64,
    salt: u64,
    is_later: impl Fn(&Header) -> bool,
) -> Result<()> {
    const CHUNK: usize = 1024 * 1024;
    let mut at = from;
    while at + HEADER_BYTES as u64 <= slot.size {
        let length = CHUNK.min((slot.size - at) as usize);
        let bytes = slot.read(at, length)?;
        for place in (0..length).step_by(ALIGNMENT) {
            if bytes.get(place..place + 4) != Some(&MAGIC[..]) {
                continue;
            }
            let found = read_record(slot, at + place as u64, salt)?;
            if let Some((header, _)) = found.filter(|(header, _)| is_later(header)) {
                let what = format!("a group before group {} is damaged", header.number);
                return Err(Error::corrupt(&slot.path, from, what));
            }
        }
        at += length as u64;
    }
    Ok(())
}

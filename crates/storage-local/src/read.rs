//! Reading the log and the event streams.
//!
//! A batch is in its stream's file or, until it is copied there, in the log. Both
//! kinds may alternate in one stream; offsets are dense, so a reader goes from one
//! to the next by offset alone.

use std::collections::VecDeque;

use parking_lot::Mutex;
use steadfast_core::id::{EntryNumber, Offset, Partition, StreamId};
use steadfast_storage::engine::{Entry, EventBatch, ReadPosition};
use steadfast_storage::{Error, Result};

use crate::control::{ControlState, PendingBatch, UnflushedEntry};
use crate::events::{EventFiles, ReadAhead, StreamFiles};
use crate::record::{LogItem, LoggedEntry, only_item};

/// How far a search for the first batch reads ahead.
const SEARCH_BYTES: usize = 64 * 1024;

/// How far reading batches reads ahead at most.
const READ_BYTES: usize = 1024 * 1024;

/// Entries from `from` on, until about `max_bytes`.
pub(crate) fn replay(
    control: &Mutex<ControlState>,
    events: &EventFiles,
    partition: Partition,
    from: EntryNumber,
    max_bytes: usize,
) -> Result<Vec<Entry>> {
    let found: Vec<UnflushedEntry> = {
        let control = control.lock();
        let Some(fence) = control.partitions.get(&partition) else {
            return Ok(Vec::new());
        };
        let skip = fence.unflushed.partition_point(|entry| entry.number < from);
        let mut bytes = 0;
        let page = fence.unflushed.iter().skip(skip).take_while(|entry| {
            let fits = bytes == 0 || bytes + entry.item.length as usize <= max_bytes;
            bytes += entry.item.length as usize;
            fits
        });
        page.cloned().collect()
    };
    found
        .iter()
        .map(|entry| read_entry(events, entry))
        .collect()
}

fn read_entry(events: &EventFiles, entry: &UnflushedEntry) -> Result<Entry> {
    let bytes = entry.item.read()?;
    let path = &entry.item.segment.slot.path;
    let damaged = |what| Error::corrupt(path, entry.item.at, what);
    let Ok(LogItem::Entry(logged)) = only_item(&bytes) else {
        return Err(damaged("an entry should be here"));
    };
    let LoggedEntry {
        partition,
        epoch,
        number,
        hash,
        body,
        batches: logged,
    } = logged;
    let mut batches = Vec::with_capacity(logged.len());
    for batch in logged {
        let content = match batch.inline {
            Some(place) => bytes.slice(place as usize..(place + batch.length) as usize),
            None => {
                let files = events.stream(partition, batch.stream)?;
                let mut window = ReadAhead::new(events, &files, 0);
                window.batch(batch.offset, true)?.1
            }
        };
        let batch = batch.with_bytes(content);
        batches.push(batch.ok_or_else(|| damaged("an event batch is damaged"))?);
    }
    let entry = Entry {
        partition,
        epoch,
        number,
        body,
        batches,
    };
    if entry.hash() == hash {
        Ok(entry)
    } else {
        Err(damaged("the entry does not have its hash"))
    }
}

/// What the control state knows of a read.
struct ReadPlan {
    files: std::sync::Arc<StreamFiles>,
    /// Batches in the log that may be part of the answer.
    pending: VecDeque<PendingBatch>,
    /// Everything before this place is too early.
    skip_to: Option<Offset>,
    end: Offset,
}

/// Batches from the one that holds `from` on, until about `max_bytes`.
pub(crate) fn read_events(
    control: &Mutex<ControlState>,
    events: &EventFiles,
    partition: Partition,
    stream: StreamId,
    from: ReadPosition,
    max_bytes: usize,
) -> Result<Vec<EventBatch>> {
    let Some(mut plan) = plan(control, events, partition, stream, from, max_bytes)? else {
        return Ok(Vec::new());
    };
    let Some(mut at) = plan.first_batch(events, from)? else {
        return Ok(Vec::new());
    };
    let mut window = ReadAhead::new(events, &plan.files, max_bytes.min(READ_BYTES));
    let mut found: Vec<EventBatch> = Vec::new();
    let mut bytes = 0;
    while at < plan.end {
        let is_pending = plan.pending.front().is_some_and(|p| p.batch.offset == at);
        let (logged, content) = match plan.pending.front().filter(|_| is_pending) {
            Some(pending) => (pending.batch.clone(), pending.bytes.read()?),
            None => window.batch(at, true)?,
        };
        if is_pending {
            plan.pending.pop_front();
        }
        let size = (logged.end().0 - at.0) as usize;
        if bytes > 0 && bytes + size > max_bytes {
            break;
        }
        let damaged = || window.damaged(at, "an event batch is damaged");
        let batch = logged.with_bytes(content).ok_or_else(damaged)?;
        bytes += size;
        at = batch.end();
        found.push(batch);
    }
    if let Some(last) = found.last() {
        plan.files.set_hint(last.next(), last.end());
    }
    Ok(found)
}

fn plan(
    control: &Mutex<ControlState>,
    events: &EventFiles,
    partition: Partition,
    stream: StreamId,
    from: ReadPosition,
    max_bytes: usize,
) -> Result<Option<ReadPlan>> {
    let control = control.lock();
    let fence = control.partitions.get(&partition);
    let Some(ends) = fence.and_then(|fence| fence.streams.get(&stream)) else {
        return Ok(None);
    };
    let skip = ends.pending.partition_point(|p| p.batch.is_before(from));
    let skip_to = skip.checked_sub(1).and_then(|i| ends.pending.get(i));
    let mut bytes = 0;
    let pending = ends.pending.iter().skip(skip).take_while(|pending| {
        let fits = bytes <= max_bytes;
        bytes += pending.bytes.length as usize;
        fits
    });
    let pending: VecDeque<_> = pending.cloned().collect();
    // What lies behind the last batch that was taken along may be in the log only.
    let is_all = skip + pending.len() == ends.pending.len();
    let end = match pending.back().filter(|_| !is_all) {
        Some(last) => last.batch.end(),
        None => ends.end,
    };
    Ok(Some(ReadPlan {
        files: events.stream(partition, stream)?,
        skip_to: skip_to.map(|p| p.batch.end()),
        pending,
        end,
    }))
}

impl ReadPlan {
    /// The offset of the first batch of the answer.
    fn first_batch(&self, events: &EventFiles, from: ReadPosition) -> Result<Option<Offset>> {
        let next_pending = self.pending.front().map(|p| p.batch.offset);
        let Some(mut at) = self.search_start(events, from).or(next_pending) else {
            return Ok(None);
        };
        let mut window = ReadAhead::new(events, &self.files, SEARCH_BYTES);
        while at < self.end && next_pending != Some(at) {
            let (batch, _) = window.batch(at, false)?;
            if !batch.is_before(from) {
                break;
            }
            at = batch.end();
        }
        Ok(Some(at))
    }

    /// A batch's offset at or before the first batch of the answer.
    fn search_start(&self, events: &EventFiles, from: ReadPosition) -> Option<Offset> {
        if let Some(at) = self.skip_to {
            return Some(at);
        }
        if let ReadPosition::Sequence(sequence) = from
            && let Some(at) = self.files.hint(sequence)
        {
            return Some(at);
        }
        let mut starts = self.files.starts();
        // Behind the end there may be a segment of a group that is not committed.
        starts.retain(|(offset, _)| *offset < self.end);
        let later = starts.partition_point(|(offset, first)| match from {
            ReadPosition::Sequence(sequence) => *first <= sequence,
            ReadPosition::Offset(wanted) => *offset <= wanted,
            ReadPosition::Time(time) => {
                let batch = ReadAhead::new(events, &self.files, 0).batch(*offset, false);
                batch.is_ok_and(|(batch, _)| batch.time < time)
            }
        });
        let start = starts
            .get(later.saturating_sub(1))
            .map(|(offset, _)| *offset);
        start.filter(|at| self.pending.front().is_none_or(|p| *at <= p.batch.offset))
    }
}

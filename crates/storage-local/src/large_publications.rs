//! Large publications, in their streams' own files.
//!
//! So they are written once, and not to the log as well. Streams share no file, so two
//! threads write and sync those of one group: while the disk syncs one file, the next
//! is copied, and journal commits of the file system are shared.

use std::collections::BTreeMap;

use steadfast_core::id::{Partition, StreamId};
use steadfast_storage::Error;
use steadfast_storage::engine::{Entry, EventBatch};

use crate::events::{EventFiles, FileUser, UnsyncedFiles};

/// Streams with large publications, and where each ends without them.
pub(crate) type LargeStreams = BTreeMap<(Partition, StreamId), u64>;

/// Why writing publications failed.
pub(crate) enum LargeWriteError {
    /// Writing failed; what was written can be removed.
    Written(Error),
    /// A sync failed: what is on disk is unknown.
    Synced(Error),
}

/// What one thread writes.
#[derive(Default)]
struct WriterLane<'a> {
    bytes: usize,
    batches: Vec<(Partition, &'a EventBatch)>,
}

/// The streams of which a group brings so many bytes that they bypass the log.
pub(crate) fn find(entries: &[&Entry], inline_bytes: usize) -> LargeStreams {
    let mut bytes: BTreeMap<(Partition, StreamId), (usize, u64)> = BTreeMap::new();
    for (partition, batch) in batches(entries) {
        let sum = bytes.entry((partition, batch.stream));
        sum.or_insert((0, batch.offset.0)).0 += batch.weight();
    }
    bytes.retain(|_, (sum, _)| *sum >= inline_bytes);
    let large = bytes.into_iter();
    large.map(|(key, (_, end))| (key, end)).collect()
}

/// Makes the large publications of a group durable.
pub(crate) fn write(
    events: &EventFiles,
    entries: &[&Entry],
    large: &LargeStreams,
) -> Result<(), LargeWriteError> {
    let [first, second] = lanes(entries, large);
    if second.batches.is_empty() {
        return first.write(events);
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("steadfast-events".into());
        let beside = thread.spawn_scoped(scope, || second.write(events));
        let own = first.write(events);
        let beside = match beside {
            Ok(thread) => thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            // No thread could be started: write one after the other.
            Err(_) => second.write(events),
        };
        match (own, beside) {
            (Err(LargeWriteError::Synced(error)), _) | (_, Err(LargeWriteError::Synced(error))) => {
                Err(LargeWriteError::Synced(error))
            }
            (own, beside) => own.and(beside),
        }
    })
}

/// Spreads whole streams over two lanes.
fn lanes<'a>(entries: &[&'a Entry], large: &LargeStreams) -> [WriterLane<'a>; 2] {
    let mut streams: BTreeMap<(Partition, StreamId), WriterLane<'a>> = BTreeMap::new();
    for (partition, batch) in batches(entries) {
        if large.contains_key(&(partition, batch.stream)) {
            let lane = streams.entry((partition, batch.stream)).or_default();
            lane.bytes += batch.weight();
            lane.batches.push((partition, batch));
        }
    }
    let mut lanes = [WriterLane::default(), WriterLane::default()];
    for stream in streams.into_values() {
        let lane = usize::from(lanes[1].bytes < lanes[0].bytes);
        lanes[lane].bytes += stream.bytes;
        lanes[lane].batches.extend(stream.batches);
    }
    lanes
}

impl WriterLane<'_> {
    fn write(&self, events: &EventFiles) -> Result<(), LargeWriteError> {
        let mut touched = UnsyncedFiles::default();
        for (partition, batch) in &self.batches {
            events
                .write(*partition, batch, FileUser::Log, &mut touched)
                .map_err(LargeWriteError::Written)?;
        }
        events.sync(touched).map_err(LargeWriteError::Synced)
    }
}

fn batches<'a>(entries: &[&'a Entry]) -> impl Iterator<Item = (Partition, &'a EventBatch)> {
    let entries = entries.iter();
    entries.flat_map(|entry| {
        let batches = entry.batches.iter();
        batches.map(|batch| (entry.partition, batch))
    })
}

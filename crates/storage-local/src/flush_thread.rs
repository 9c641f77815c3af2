//! The flush thread: folds the log into the tables.
//!
//! All flushes that wait are done together: event batches are copied to their
//! files, files are synced, one sorted ingestion brings rows and control state
//! into the tables, and only then the mark moves in the log. A crash between any
//! two steps leaves a log that still holds everything, and redo is absolute.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use steadfast_core::id::Partition;
use steadfast_storage::engine::{Flush, FlushedRow};
use steadfast_storage::{Error, ErrorKind, Result};
use tokio::sync::oneshot;

use crate::commit_log::Request;
use crate::control::{ControlState, Fence, PendingBatch};
use crate::events::{EventFiles, FileUser, UnsyncedFiles};
use crate::tables::{self, Tables};

/// A flush and the channel for its answer.
pub(crate) type FlushRequest = (Flush, oneshot::Sender<Result<()>>);

/// The state of the flush thread.
pub(crate) struct FlushThread {
    pub(crate) control: Arc<Mutex<ControlState>>,
    pub(crate) events: Arc<EventFiles>,
    pub(crate) tables: Arc<Tables>,
    pub(crate) log: Sender<Request>,
    /// Compact before the answer, not after it.
    pub(crate) in_order: bool,
    /// Bytes per second at most.
    pub(crate) rate: u64,
}

/// Spreads writing out, so that it does not hold up the log's syncs.
struct WriteThrottle {
    rate: u64,
    written: usize,
}

impl WriteThrottle {
    /// Written in one go.
    const STEP: usize = 1024 * 1024;

    fn new(rate: u64) -> Self {
        Self { rate, written: 0 }
    }

    fn wrote(&mut self, bytes: usize) {
        self.written += bytes;
        if self.written >= Self::STEP {
            let seconds = self.written as f64 / self.rate as f64;
            std::thread::sleep(Duration::from_secs_f64(seconds));
            self.written = 0;
        }
    }
}

/// Rows for the tables, by full key.
type IngestRows = BTreeMap<Bytes, Option<Bytes>>;

impl FlushThread {
    /// Serves flushes until all senders are gone.
    pub(crate) fn run(self, orders: &Receiver<FlushRequest>) {
        while let Ok(first) = orders.recv() {
            let mut batch = vec![first];
            batch.extend(orders.try_iter());
            self.serve(batch);
            if !self.in_order {
                self.compact();
            }
        }
    }

    fn serve(&self, batch: Vec<FlushRequest>) {
        let (mut flushes, mut waiting) = (Vec::new(), Vec::new());
        for (flush, reply) in batch {
            match self.check_fence(&flush) {
                Ok(()) => {
                    flushes.push(flush);
                    waiting.push(reply);
                }
                Err(error) => drop(reply.send(Err(error))),
            }
        }
        if flushes.is_empty() {
            return;
        }
        let done = self.fold(&flushes);
        if self.in_order {
            self.compact();
        }
        for (flush, reply) in flushes.iter().zip(waiting) {
            // A flush of a partition with a new owner is fenced, although its rows are
            // in the tables: the new owner replays the same changes.
            let done = done.clone().and_then(|()| self.check_fence(flush));
            drop(reply.send(done));
        }
    }

    fn compact(&self) {
        if let Err(error) = self.tables.compact() {
            tracing::warn!(
                event = "storage.compaction_failed",
                %error,
                "could not compact the tables",
            );
        }
    }

    fn check_fence(&self, flush: &Flush) -> Result<()> {
        let partition = flush.partition;
        let epoch = self.control.lock().fence(partition).epoch;
        if epoch == flush.epoch {
            Ok(())
        } else {
            Err(Error::new(ErrorKind::Fenced { partition, epoch }))
        }
    }

    fn fold(&self, flushes: &[Flush]) -> Result<()> {
        self.copy_events(flushes)?;
        let mut partitions: Vec<&Flush> = flushes.iter().collect();
        partitions.sort_by_key(|flush| (flush.partition, flush.up_to));
        let mut rows = Vec::new();
        let mut previous: Option<Partition> = None;
        for flush in partitions {
            if previous == Some(flush.partition) || !flush.clears.is_empty() {
                let mut merged: IngestRows = rows.drain(..).collect();
                self.clear(flush, &mut merged)?;
                merged.extend(flush.rows.iter().map(|c| row(flush.partition, c)));
                rows.extend(merged);
            } else {
                rows.extend(flush.rows.iter().map(|c| row(flush.partition, c)));
            }
            previous = Some(flush.partition);
        }
        let (control_rows, group) = self.control_rows(flushes);
        let rows = control_rows.into_iter().chain(rows);
        let mut pace = WriteThrottle::new(self.rate);
        let ingested = self.tables.ingest(rows, |bytes| pace.wrote(bytes));
        ingested.inspect_err(|_| {
            // Nothing of it is in the tables, so all of it has to come again.
            self.control.lock().make_dirty();
        })?;
        let (mark, flushes) = self.forget(flushes, group);
        let (reply, done) = oneshot::channel();
        let closed = || Error::new(ErrorKind::Closed);
        self.log
            .send(Request::Mark(mark, reply))
            .map_err(|_| closed())?;
        done.blocking_recv().map_err(|_| closed())??;
        self.remove_trimmed(&flushes);
        Ok(())
    }

    /// Copies batches from the log to their streams' files.
    fn copy_events(&self, flushes: &[Flush]) -> Result<()> {
        let mut touched = UnsyncedFiles::default();
        for flush in flushes {
            let pending: Vec<PendingBatch> = {
                let control = self.control.lock();
                let fence = control.partitions.get(&flush.partition);
                let streams = fence.into_iter().flat_map(|fence| fence.streams.values());
                let pending = streams.flat_map(|ends| {
                    let covered = ends.pending.iter().take_while(|p| p.entry <= flush.up_to);
                    covered.cloned()
                });
                pending.collect()
            };
            for pending in pending {
                let bytes = pending.bytes.read()?;
                let path = &pending.bytes.segment.slot.path;
                let damaged = || Error::corrupt(path, pending.bytes.at, "a batch is damaged");
                let batch = pending.batch.with_bytes(bytes).ok_or_else(damaged)?;
                self.events
                    .write(flush.partition, &batch, FileUser::Flush, &mut touched)?;
            }
        }
        self.events.sync(touched)
    }

    /// Fences, streams and records that have changed, as they will be after this
    /// flush, and the group up to which these rows are current.
    fn control_rows(&self, flushes: &[Flush]) -> (IngestRows, u64) {
        let mut control = self.control.lock();
        let mut rows = IngestRows::new();
        let group = control.next_group;
        rows.insert(
            tables::group_key(),
            Some(group.to_le_bytes().to_vec().into()),
        );
        let ControlState {
            partitions,
            records,
            dirty_records,
            ..
        } = &mut *control;
        for (partition, fence) in partitions {
            let flush = newest(flushes, *partition);
            if flush.is_none() && !fence.is_dirty {
                continue;
            }
            let flushed = flush.map_or(fence.flushed, |flush| flush.up_to.max(fence.flushed));
            let meta = flush.map_or(&fence.meta, |flush| &flush.meta);
            let row = fence.encode(flushed, meta);
            rows.insert(tables::fence_key(*partition), Some(row.into()));
            fence.is_dirty = false;
            stream_rows(*partition, fence, flushes, &mut rows);
        }
        for key in std::mem::take(dirty_records) {
            if let Some((version, value)) = records.get(&key) {
                let row = [version.to_le_bytes().as_slice(), value].concat();
                rows.insert(tables::record_key(&key), Some(row.into()));
            }
        }
        (rows, group)
    }

    /// Deletes what a cleared table held.
    fn clear(&self, flush: &Flush, rows: &mut IngestRows) -> Result<()> {
        for table in &flush.clears {
            let prefix = tables::row_key(flush.partition, *table, &[]);
            for (_, value) in rows
                .range_mut(prefix.clone()..)
                .take_while(|(k, _)| k.starts_with(&prefix))
            {
                *value = None;
            }
            for key in self.tables.keys(flush.partition, *table)? {
                rows.insert(key, None);
            }
        }
        Ok(())
    }

    /// Removes the flushed entries from the index; returns the new mark and which flushes
    /// took effect. A new owner already knows what to replay, so entries of a partition
    /// with a new owner stay. Groups from `group` on are not in the tables' control rows.
    fn forget<'a>(&self, flushes: &'a [Flush], group: u64) -> (u64, Vec<&'a Flush>) {
        let mut forgotten = Vec::new();
        let mut control = self.control.lock();
        let mut counted = Vec::new();
        for flush in flushes {
            let fence = control.fence(flush.partition);
            if fence.epoch == flush.epoch {
                forgotten.push(fence.flushed(flush.up_to));
                fence.meta = flush.meta.clone();
                counted.push(flush);
            }
        }
        let mark = control.mark().min(group);
        drop(control);
        drop(forgotten);
        (mark, counted)
    }

    fn remove_trimmed(&self, flushes: &[&Flush]) {
        for flush in flushes {
            for (stream, first) in &flush.trims {
                self.events.trim(flush.partition, *stream, *first);
            }
        }
    }
}

/// The flush of a partition that goes furthest.
fn newest(flushes: &[Flush], partition: Partition) -> Option<&Flush> {
    let own = flushes.iter().filter(|flush| flush.partition == partition);
    own.max_by_key(|flush| flush.up_to)
}

fn stream_rows(partition: Partition, fence: &mut Fence, flushes: &[Flush], rows: &mut IngestRows) {
    for flush in flushes.iter().filter(|flush| flush.partition == partition) {
        for (stream, first) in &flush.trims {
            if let Some(ends) = fence.streams.get_mut(stream) {
                ends.first = ends.first.max(*first);
                ends.is_dirty = true;
            }
        }
    }
    for (stream, ends) in fence.streams.iter_mut().filter(|(_, ends)| ends.is_dirty) {
        let row = ends.encode();
        rows.insert(tables::stream_key(partition, *stream), Some(row.into()));
        ends.is_dirty = false;
    }
}

fn row(partition: Partition, change: &FlushedRow) -> (Bytes, Option<Bytes>) {
    let key = tables::row_key(partition, change.table, &change.key);
    (key, change.value.clone())
}

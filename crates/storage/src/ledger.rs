//! One owned partition: staged writes, durable reads.
//!
//! The owner is the only writer, so its memory is valid for as long as its epoch
//! is. A transaction is staged synchronously: it gets its LSN, its events get
//! their numbers, its rows enter the overlay, and it joins the entry that is
//! being collected. Durable reads see it once the group that carries it is
//! committed. Waiters complete in LSN order.
//!
//! If a group is refused because another owner has the partition, or its outcome
//! cannot be determined, the ledger fails and must be acquired again. If nothing was
//! written (a full disk), staged writes are rolled back instead, and the ledger
//! stays usable.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::clock::Timestamp;
use steadfast_core::id::{Epoch, Lsn, Partition, Sequence, StreamId, TableId};
use tokio::sync::watch;

use crate::body::Writes;
use crate::engine::{EventBatch, ReadPosition};
use crate::error::{Error, ErrorKind, Result};
use crate::partition_state::{MemoryLookup, PartitionState, StagedTransaction};
use crate::streams::StreamHead;

/// The handle of an owned partition. Clones share it.
#[derive(Clone)]
pub struct Ledger {
    pub(crate) shared: Arc<PartitionState>,
}

/// Which writes a read sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// Durable ones.
    Durable,
    /// All, durable or not: for the owner itself.
    Staged,
}

impl Ledger {
    /// The partition of this ledger.
    pub fn partition(&self) -> Partition {
        self.shared.partition
    }

    /// The epoch in which it is held.
    pub fn epoch(&self) -> Epoch {
        self.shared.read().epoch
    }

    /// The epoch in which it was acquired. It stays the same, although resolving an unknown
    /// outcome raises the current epoch.
    pub fn tenure(&self) -> Epoch {
        self.shared.tenure
    }

    /// Stages a transaction: it is ordered now and durable soon. Follow it with
    /// [`Ledger::wait`].
    pub fn stage(&self, writes: Writes) -> Result<StagedTransaction> {
        let mut state = self.shared.begin(&writes)?;
        Ok(self.shared.stage(&mut state, writes))
    }

    /// Stages a transaction and waits until it is durable. The commit goes on if
    /// the returned future is dropped.
    pub fn commit(
        &self,
        writes: Writes,
    ) -> impl Future<Output = Result<StagedTransaction>> + Send + 'static {
        self.shared.commit(writes)
    }

    /// Waits until the transaction at `lsn` is durable.
    pub async fn wait(&self, lsn: Lsn) -> Result<()> {
        self.shared.wait(lsn).await
    }

    /// Whether the transaction at `lsn` was staged and then rolled back.
    pub fn is_rolled_back(&self, lsn: Lsn) -> bool {
        self.shared.read().is_rolled_back(lsn)
    }

    /// The error that ended the ledger; `None` while it accepts writes.
    pub fn failure(&self) -> Option<Error> {
        self.shared.read().failed.clone()
    }

    /// Fails if earlier reads from memory may be stale: the ledger has failed, or the
    /// node's lease has ended.
    pub fn check(&self) -> Result<()> {
        self.shared.read_checked().map(drop)
    }

    /// Whether so much waits to be flushed that writes are refused.
    pub fn is_full(&self) -> bool {
        self.shared.node.budget.is_full()
    }

    /// Fails if the node's lease has ended. Costs nothing on a node without one.
    pub fn check_lease(&self) -> Result<()> {
        self.shared.check_lease()
    }

    /// Watches the last durable LSN. It also notifies when staged writes were
    /// rolled back and when the ledger has failed.
    pub fn durable(&self) -> watch::Receiver<Lsn> {
        self.shared.durable()
    }

    /// The owner's time: it never goes back, whatever the clock does.
    pub fn time(&self) -> Timestamp {
        self.shared.node.clock.now().max(self.shared.read().time)
    }

    /// How often staged writes were rolled back. A caller that reads with
    /// [`Visibility::Staged`] notes this first and stages with [`Ledger::stage_after`].
    pub fn rollbacks(&self) -> u64 {
        self.shared.read().rollbacks
    }

    /// Stages a transaction that was computed from staged writes, unless some of
    /// them were rolled back since `rollbacks` was noted.
    pub fn stage_after(&self, rollbacks: u64, writes: Writes) -> Result<StagedTransaction> {
        let mut state = self.shared.begin(&writes)?;
        if state.rollbacks != rollbacks {
            let partition = self.shared.partition;
            return Err(Error::new(ErrorKind::RolledBack { partition }));
        }
        Ok(self.shared.stage(&mut state, writes))
    }

    /// Looks a row up in memory only.
    pub fn peek(&self, table: TableId, key: &[u8], view: Visibility) -> Result<MemoryLookup> {
        let state = self.shared.read_checked()?;
        let at = match view {
            Visibility::Durable => state.durable_lsn,
            Visibility::Staged => Lsn::MAX,
        };
        Ok(self.shared.peek(&state, table, key, at))
    }

    /// Reads a row, from the tables if memory does not have it.
    pub async fn get(&self, table: TableId, key: &[u8], view: Visibility) -> Result<Option<Bytes>> {
        match self.peek(table, key, view)? {
            MemoryLookup::Found(value) => Ok(value),
            MemoryLookup::Missing => self.shared.load(table, key).await,
        }
    }

    /// Begin, end and newest time of a stream; `None` if it was never written.
    pub fn stream(&self, stream: StreamId) -> Result<Option<StreamHead>> {
        Ok(self.shared.read_checked()?.streams.head(stream))
    }

    /// Begin and end of a stream including staged events, for its only writer.
    pub fn staged_stream(&self, stream: StreamId) -> Result<Option<StreamHead>> {
        Ok(self.shared.read_checked()?.streams.staged_head(stream))
    }

    /// Watches the number after the last durable event of a stream. It is closed
    /// when the ledger fails.
    pub fn follow(&self, stream: StreamId) -> Result<watch::Receiver<Sequence>> {
        let mut state = self.shared.write();
        match &state.failed {
            Some(error) => Err(error.clone()),
            None => Ok(state.streams.follow(stream)),
        }
    }

    /// Durable batches of a stream from the one that holds `from` on, until about
    /// `max_bytes`; empty at the end. What was trimmed is skipped.
    pub async fn read_events(
        &self,
        stream: StreamId,
        from: ReadPosition,
        max_bytes: usize,
    ) -> Result<Vec<EventBatch>> {
        let head = {
            let state = self.shared.read_checked()?;
            let Some(head) = state.streams.head(stream) else {
                return Ok(Vec::new());
            };
            if let Some(batches) = state.streams.cached(stream, from, max_bytes) {
                return Ok(batches);
            }
            head
        };
        let from = match from {
            ReadPosition::Sequence(sequence) => ReadPosition::Sequence(sequence.max(head.first)),
            ReadPosition::Offset(offset) => ReadPosition::Offset(offset.max(head.first_offset)),
            ReadPosition::Time(_) => from,
        };
        let read = |from| self.read_batches(stream, head, from, max_bytes);
        match read(from).await {
            // Times never go back, so from the first one on all are late enough.
            Ok(batches) if batches.is_empty() && matches!(from, ReadPosition::Time(_)) => {
                let batches = read(ReadPosition::Sequence(head.first)).await?;
                let is_late = batches.first().is_some_and(|batch| !from.is_past(batch));
                Ok(if is_late { batches } else { Vec::new() })
            }
            // A trim may have removed the file under the reader.
            Err(error) if matches!(error.kind(), ErrorKind::Corrupt { .. }) => {
                match self.stream(stream)? {
                    Some(now) if now.first > head.first => {
                        let from = ReadPosition::Sequence(now.first);
                        self.read_batches(stream, now, from, max_bytes).await
                    }
                    _ => Err(error),
                }
            }
            done => done,
        }
    }

    /// Batches of the engine that readers may see.
    async fn read_batches(
        &self,
        stream: StreamId,
        head: StreamHead,
        from: ReadPosition,
        max_bytes: usize,
    ) -> Result<Vec<EventBatch>> {
        let engine = &self.shared.node.engine;
        let partition = self.shared.partition;
        let mut batches = engine
            .read_events(partition, stream, from, max_bytes)
            .await?;
        batches.retain(|batch| batch.next() > head.first && batch.first < head.next);
        Ok(batches)
    }
}

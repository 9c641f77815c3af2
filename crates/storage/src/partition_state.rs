//! The state of a partition that its owner's tasks share.
//!
//! The ledger's handles stage into it, the committer closes its entries and commits or
//! rolls them back, the flusher seals its generations.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::clock::Timestamp;
use steadfast_core::id::{EntryNumber, Epoch, Lsn, Offset, Partition, Sequence, StreamId, TableId};
use tokio::sync::{oneshot, watch};

use crate::body::{EntryBody, Transaction, Writes};
use crate::engine::{Entry, EventBatch};
use crate::error::{Error, ErrorKind, Result};
use crate::lock_shim::{LockFamily, ParkingLocks, SharedLock};
use crate::node_context::NodeContext;
use crate::overlay::{Overlay, OverlayLookup};
use crate::queue::NotifyQueue;
use crate::state::{PendingTransaction, State, Trim};

/// A partition as its owner's tasks share it.
pub(crate) struct PartitionState<L: LockFamily = ParkingLocks> {
    pub(crate) partition: Partition,
    /// The epoch in which it was acquired.
    pub(crate) tenure: Epoch,
    pub(crate) node: Arc<NodeContext>,
    state: L::LockOf<State>,
    /// The last durable LSN, for watchers.
    durable: watch::Sender<Lsn>,
    /// Where partitions with something to commit wait for the next group.
    ready: Arc<NotifyQueue<Arc<Self>, L>>,
    /// One flush at a time.
    pub(crate) flushing: tokio::sync::Mutex<()>,
}

type StateReadGuard<'a, L> =
    <<L as LockFamily>::LockOf<State> as SharedLock<State>>::SharedGuard<'a>;
type StateWriteGuard<'a, L> =
    <<L as LockFamily>::LockOf<State> as SharedLock<State>>::ExclusiveGuard<'a>;

/// An entry in flight to the engine.
pub(crate) struct ClosedEntry<L: LockFamily = ParkingLocks> {
    pub(crate) ledger: Arc<PartitionState<L>>,
    pub(crate) entry: Entry,
    /// More transactions wait behind it.
    pub(crate) more: bool,
    last_lsn: Lsn,
    trims: Vec<Trim>,
}

/// LSN, time and event positions of a staged transaction.
#[derive(Clone, Debug)]
pub struct StagedTransaction {
    /// Its place in the commit order.
    pub lsn: Lsn,
    /// The owner's time.
    pub time: Timestamp,
    /// The position of each publication, in order.
    pub positions: Vec<AppendPosition>,
}

/// The position of a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendPosition {
    pub stream: StreamId,
    pub first: Sequence,
    pub offset: Offset,
}

/// A lookup of a row in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryLookup {
    /// The row, or that there is none.
    Found(Option<Bytes>),
    /// Only the tables can tell: see [`crate::Ledger::get`].
    Missing,
}

impl<L: LockFamily> PartitionState<L> {
    pub(crate) fn new(
        partition: Partition,
        node: Arc<NodeContext>,
        ready: Arc<NotifyQueue<Arc<Self>, L>>,
        state: State,
    ) -> Self {
        let (durable, _) = watch::channel(state.durable_lsn);
        Self {
            partition,
            tenure: state.epoch,
            node,
            state: SharedLock::new(state),
            durable,
            ready,
            flushing: tokio::sync::Mutex::new(()),
        }
    }

    pub(crate) fn read(&self) -> StateReadGuard<'_, L> {
        self.state.read()
    }

    pub(crate) fn write(&self) -> StateWriteGuard<'_, L> {
        self.state.write()
    }

    pub(crate) fn read_checked(&self) -> Result<StateReadGuard<'_, L>> {
        let state = self.state.read();
        match &state.failed {
            Some(error) => Err(error.clone()),
            None => self.check_lease().map(|()| state),
        }
    }

    /// Refuses to answer from memory once the node's lease has ended.
    pub(crate) fn check_lease(&self) -> Result<()> {
        match &self.node.lease {
            Some(lease) if !lease.holds() => {
                let partition = self.partition;
                Err(Error::new(ErrorKind::LeaseEnded { partition }))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a transaction before anything has changed.
    pub(crate) fn begin(&self, writes: &Writes) -> Result<StateWriteGuard<'_, L>> {
        writes.check()?;
        self.node.budget.check()?;
        let state = self.state.write();
        if let Some(error) = &state.failed {
            return Err(error.clone());
        }
        // What it is based on may be old.
        self.check_lease()?;
        // A trim that does nothing now might do something when it is replayed.
        for (stream, first) in &writes.trims {
            if *first > state.streams.staged_end(*stream) {
                let (stream, first) = (*stream, *first);
                return Err(Error::new(ErrorKind::TrimPastEnd { stream, first }));
            }
        }
        Ok(state)
    }

    pub(crate) fn stage(self: &Arc<Self>, state: &mut State, writes: Writes) -> StagedTransaction {
        let lsn = state.next_lsn;
        state.next_lsn = lsn.next();
        state.time = self.node.clock.now().max(state.time);
        let time = state.time;
        let transaction = Transaction {
            id: writes.id,
            operations: writes.operations.into(),
        };
        let trims = state.redo(lsn, transaction.operations.clone());
        let stage = |publication| state.streams.stage(publication, time);
        let batches: Vec<_> = writes.publications.into_iter().map(stage).collect();
        let places = batches.iter().map(place).collect();
        let pending = PendingTransaction {
            lsn,
            time,
            transaction,
            batches,
            trims,
        };
        state.pending_bytes += pending.weight();
        self.node.budget.stage(pending.weight());
        state.pending.push_back(pending);
        if !state.queued {
            state.queued = true;
            self.ready.push(Arc::clone(self));
        }
        StagedTransaction {
            lsn,
            time,
            positions: places,
        }
    }

    /// Stages a transaction and waits until it is durable. The commit goes on if
    /// the returned future is dropped.
    pub(crate) fn commit(
        self: &Arc<Self>,
        writes: Writes,
    ) -> impl Future<Output = Result<StagedTransaction>> + Send + use<L> {
        let staged = self.begin(&writes).map(|mut state| {
            let staged = self.stage(&mut state, writes);
            let (sender, receiver) = oneshot::channel();
            state.waiters.push_back((staged.lsn, sender));
            (staged, receiver)
        });
        async move {
            let (staged, receiver) = staged?;
            receiver
                .await
                .map_err(|_| Error::new(ErrorKind::Closed))??;
            Ok(staged)
        }
    }

    /// Waits until the transaction at `lsn` is durable.
    pub(crate) async fn wait(&self, lsn: Lsn) -> Result<()> {
        let receiver = {
            let mut state = self.state.write();
            if state.is_rolled_back(lsn) {
                let partition = self.partition;
                return Err(Error::new(ErrorKind::RolledBack { partition }));
            }
            if lsn <= state.durable_lsn {
                return Ok(());
            }
            if let Some(error) = &state.failed {
                return Err(self.ended(lsn, state.in_doubt, error));
            }
            let (sender, receiver) = oneshot::channel();
            let index = state.waiters.partition_point(|(other, _)| *other <= lsn);
            state.waiters.insert(index, (lsn, sender));
            receiver
        };
        receiver.await.map_err(|_| Error::new(ErrorKind::Closed))?
    }

    /// Closes the entry that was collected, up to about `max_bytes`.
    pub(crate) fn close_entry(
        self: &Arc<Self>,
        group: u64,
        max_bytes: usize,
    ) -> Option<ClosedEntry<L>> {
        let mut state = self.state.write();
        let mut body = EntryBody::default();
        let (mut batches, mut trims) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        while let Some(next) = state.pending.front() {
            let weight = next.weight();
            if !body.transactions.is_empty() && bytes + weight > max_bytes {
                break;
            }
            let Some(next) = state.pending.pop_front() else {
                break;
            };
            if body.transactions.is_empty() {
                body.first_lsn = next.lsn;
            }
            bytes += weight;
            state.pending_bytes -= weight;
            body.time = next.time;
            body.transactions.push(next.transaction);
            batches.extend(next.batches);
            trims.extend(next.trims);
        }
        self.node.budget.unstage(bytes);
        state.queued = !state.pending.is_empty();
        if body.transactions.is_empty() {
            return None;
        }
        state.last = state.last.next();
        let closed = ClosedEntry {
            ledger: Arc::clone(self),
            more: state.queued,
            last_lsn: body.last_lsn(),
            trims,
            entry: Entry {
                partition: self.partition,
                epoch: state.epoch,
                number: state.last,
                body: body.encode(),
                batches,
            },
        };
        state.in_flight = Some(closed.last_lsn);
        state.account(closed.last_lsn, closed.entry.weight() as u64, group);
        self.node.budget.add(closed.entry.weight() as u64);
        if state.seal_requested && state.pending.is_empty() {
            state.seal_requested = false;
            let last = state.last;
            state.overlay.seal(last);
        }
        Some(closed)
    }

    /// How large the entry is that is being collected.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.state.read().pending_bytes
    }

    /// Shows a committed entry to durable readers.
    pub(crate) fn committed(&self, closed: ClosedEntry<L>, epoch: Epoch) {
        let mut state = self.state.write();
        state.epoch = epoch;
        state.resolving = false;
        state.durable_lsn = closed.last_lsn;
        if let Some(tap) = &state.tap {
            tap.push(&closed.entry);
        }
        state.in_flight = state.in_flight.filter(|lsn| *lsn > closed.last_lsn);
        let mut rung = Vec::new();
        for batch in closed.entry.batches {
            let (stream, next) = (batch.stream, batch.next());
            state.streams.committed(batch);
            rung.extend(state.streams.follower(stream).map(|to| (to, next)));
        }
        for (stream, first, offset) in closed.trims {
            state.streams.committed_trim(stream, first, offset);
        }
        let ready = state
            .waiters
            .partition_point(|(lsn, _)| *lsn <= closed.last_lsn);
        let ready: Vec<_> = state.waiters.drain(..ready).collect();
        drop(state);
        self.durable.send_replace(closed.last_lsn);
        for (follower, next) in rung {
            follower.send_replace(next);
        }
        for (_, waiter) in ready {
            // The caller may have stopped waiting.
            let _ = waiter.send(Ok(()));
        }
    }

    /// Rolls back staged writes: none of them was or will be written. LSNs are not
    /// reused, so that a later transaction is never mistaken for an earlier one.
    pub(crate) fn roll_back(&self, number: EntryNumber, error: &Error) {
        let mut state = self.state.write();
        let (durable, last) = (state.durable_lsn, EntryNumber(number.0 - 1));
        state.last = last;
        state.note_rollback();
        state.overlay.roll_back(durable, last);
        state.streams.roll_back();
        self.forget_pending(&mut state);
        // The flusher may wait for an entry that will never come.
        if std::mem::take(&mut state.seal_requested) {
            state.overlay.seal(last);
        }
        let waiters = std::mem::take(&mut state.waiters);
        drop(state);
        self.durable.send_modify(|_| {});
        answer(waiters, |_| error.clone());
    }

    /// Ends the ledger after its entry was refused: the partition must be acquired
    /// again.
    pub(crate) fn fail(&self, error: &Error) {
        self.state.write().in_flight = None;
        self.abandon(error);
    }

    /// Ends the ledger while an entry may be in flight: its outcome stays unknown.
    pub(crate) fn abandon(&self, error: &Error) {
        let mut state = self.state.write();
        self.forget_pending(&mut state);
        let waiters = std::mem::take(&mut state.waiters);
        self.node.budget.free(state.overlay.bytes());
        state.overlay = Overlay::default();
        state.streams.close_followers();
        let error = state.failed.get_or_insert_with(|| error.clone()).clone();
        let in_doubt = state.in_flight.take().max(state.in_doubt);
        state.in_doubt = in_doubt;
        drop(state);
        // Watchers of the durable mark must notice, too.
        self.durable.send_modify(|_| {});
        answer(waiters, |lsn| self.ended(lsn, in_doubt, &error));
    }

    /// The error of a transaction that was not durable when the ledger ended.
    fn ended(&self, lsn: Lsn, in_doubt: Option<Lsn>, error: &Error) -> Error {
        let partition = self.partition;
        if in_doubt.is_some_and(|last| lsn <= last) {
            Error::caused(ErrorKind::OutcomeUnknown { partition }, error.clone())
        } else {
            error.clone()
        }
    }

    fn forget_pending(&self, state: &mut State) {
        self.node.budget.unstage(state.pending_bytes);
        state.pending.clear();
        state.pending_bytes = 0;
    }

    /// The last durable LSN, to be followed.
    pub(crate) fn durable(&self) -> watch::Receiver<Lsn> {
        self.durable.subscribe()
    }

    /// Seals the active generation as soon as it ends at an entry.
    pub(crate) fn request_seal(&self) {
        let mut state = self.state.write();
        if !state.overlay.has_active() {
            return;
        }
        if state.pending.is_empty() {
            let last = state.last;
            state.overlay.seal(last);
        } else {
            state.seal_requested = true;
        }
    }

    pub(crate) fn peek(&self, state: &State, table: TableId, key: &[u8], at: Lsn) -> MemoryLookup {
        with_row_key(table, key, |row| match state.overlay.find(row, table, at) {
            OverlayLookup::Value(value) => MemoryLookup::Found(Some(value)),
            OverlayLookup::Absent => MemoryLookup::Found(None),
            OverlayLookup::Unknown => match self.node.cache.get(state.cache_version, row) {
                Some(value) => MemoryLookup::Found(value),
                None => MemoryLookup::Missing,
            },
        })
    }

    /// Reads a row from the tables and remembers it.
    pub(crate) async fn load(&self, table: TableId, key: &[u8]) -> Result<Option<Bytes>> {
        let (drops, version) = {
            let state = self.read_checked()?;
            (state.overlay.drops, state.cache_version)
        };
        let value = self.node.engine.get(self.partition, table, key).await?;
        let state = self.read_checked()?;
        with_row_key(table, key, |row| {
            // While we read, the row may have been written (then memory answers)
            // and even flushed (then what we read is old). Remember neither.
            let is_current = state.overlay.drops == drops
                && state.cache_version == version
                && state.overlay.find(row, table, Lsn::MAX) == OverlayLookup::Unknown;
            if is_current {
                self.node.cache.put(version, row, value.as_ref());
            }
        });
        Ok(value)
    }

    /// A row at an LSN, wherever it is.
    pub(crate) async fn get_at(
        &self,
        table: TableId,
        key: &[u8],
        at: Lsn,
    ) -> Result<Option<Bytes>> {
        let peek = self.peek(&*self.read_checked()?, table, key, at);
        match peek {
            MemoryLookup::Found(value) => Ok(value),
            MemoryLookup::Missing => self.load(table, key).await,
        }
    }
}

impl<L: LockFamily> Drop for PartitionState<L> {
    /// Returns budget of entries that can no longer be flushed.
    fn drop(&mut self) {
        let state = self.state.get_mut();
        self.node.budget.unstage(state.pending_bytes);
        self.node.budget.free(state.overlay.bytes());
    }
}

fn place(batch: &EventBatch) -> AppendPosition {
    AppendPosition {
        stream: batch.stream,
        first: batch.first,
        offset: batch.offset,
    }
}

fn answer(waiters: VecDeque<(Lsn, oneshot::Sender<Result<()>>)>, error: impl Fn(Lsn) -> Error) {
    for (lsn, waiter) in waiters {
        let _ = waiter.send(Err(error(lsn)));
    }
}

/// Joins table and key on the stack: a read from memory allocates nothing.
fn with_row_key<T>(table: TableId, key: &[u8], then: impl FnOnce(&[u8]) -> T) -> T {
    const SHORT: usize = 256;
    if key.len() + 4 > SHORT {
        return then(&crate::body::row_key(table, key));
    }
    let mut row = [0; SHORT];
    row[..4].copy_from_slice(&table.0.to_be_bytes());
    row[4..4 + key.len()].copy_from_slice(key);
    then(&row[..4 + key.len()])
}

//! One owned partition: staged writes, durable reads.
//!
//! The owner is the only writer, so its memory is valid for as long as its epoch
//! is. A transaction is staged synchronously: it gets its LSN, its events get
//! their numbers, its rows enter the overlay, and it joins the entry that is
//! being collected. Durable reads see it once the group that carries it is
//! committed. Waiters complete in LSN order.
//!
//! If a group is refused because another owner has the partition, or its outcome
//! cannot be found out, the ledger fails for good and must be acquired again. If
//! nothing was written (a full disk), what was staged is taken back instead, and
//! the ledger goes on.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use steadfast_core::clock::Timestamp;
use steadfast_core::id::{EntryNumber, Epoch, Lsn, Offset, Partition, Sequence, Stream, Table};
use tokio::sync::{oneshot, watch};

use crate::body::{Body, Operation, Transaction, Writes, operations};
use crate::engine::{Entry, EventBatch, Start};
use crate::error::{Error, Kind, Result};
use crate::node::Node;
use crate::overlay::{Found, Overlay, Pins};
use crate::queue::Queue;
use crate::streams::{Head, Streams};

/// The handle of an owned partition. Clones share it.
#[derive(Clone)]
pub struct Ledger {
    pub(crate) shared: Arc<Shared>,
}

/// What a transaction was given when it was staged.
#[derive(Clone, Debug)]
pub struct Staged {
    /// Its place in the commit order.
    pub lsn: Lsn,
    /// The owner's time.
    pub time: Timestamp,
    /// Where each publication went, in order.
    pub places: Vec<Place>,
}

/// Where a publication went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub stream: Stream,
    pub first: Sequence,
    pub offset: Offset,
}

/// Which writes a read sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Durable ones.
    Durable,
    /// All, durable or not: for the owner itself.
    Staged,
}

/// A partition as its owner's tasks share it.
pub(crate) struct Shared {
    pub(crate) partition: Partition,
    pub(crate) node: Arc<Node>,
    state: RwLock<State>,
    /// The last durable LSN, for whoever follows it.
    durable: watch::Sender<Lsn>,
    /// Where partitions with something to commit wait for the next group.
    ready: Arc<Queue<Arc<Shared>>>,
    /// One flush at a time.
    pub(crate) flushing: tokio::sync::Mutex<()>,
}

pub(crate) struct State {
    pub(crate) epoch: Epoch,
    /// The last entry that was closed.
    pub(crate) last: EntryNumber,
    next_lsn: Lsn,
    pub(crate) durable_lsn: Lsn,
    pub(crate) time: Timestamp,
    pub(crate) overlay: Overlay,
    pub(crate) streams: Streams,
    pub(crate) pins: Pins,
    /// Cached rows of older versions are never found again.
    pub(crate) cache_version: u64,
    pending: VecDeque<Pending>,
    pending_bytes: usize,
    /// The last transaction of the entry that is on its way.
    in_flight: Option<Lsn>,
    /// How often staged writes were taken back, and which.
    rollbacks: u64,
    taken_back: VecDeque<(Lsn, Lsn)>,
    waiters: VecDeque<(Lsn, oneshot::Sender<Result<()>>)>,
    /// In the committer's queue.
    queued: bool,
    /// The flusher wants the active generation sealed at the next close.
    pub(crate) seal_requested: bool,
    /// Log bytes that were ever closed here.
    pub(crate) appended: u64,
    /// Snapshots that are held.
    pub(crate) held: Vec<Weak<Pin>>,
    failed: Option<Error>,
}

/// A staged transaction that waits for its entry.
struct Pending {
    lsn: Lsn,
    time: Timestamp,
    transaction: Transaction,
    batches: Vec<EventBatch>,
    trims: Vec<Trim>,
}

/// A stream's new beginning.
type Trim = (Stream, Sequence, Offset);

impl Pending {
    fn weight(&self) -> usize {
        let batches = self.batches.iter().map(EventBatch::weight).sum::<usize>();
        self.transaction.operations.len() + batches + 16
    }
}

/// A snapshot's hold on the overlay.
pub(crate) struct Pin {
    pub(crate) lsn: Lsn,
    /// When it was taken, in monotonic time.
    pub(crate) since: Duration,
    /// [`State::appended`] at that time.
    pub(crate) appended: u64,
    /// It no longer holds anything: a flush may have passed it.
    pub(crate) expired: AtomicBool,
}

/// An entry that is on its way to the engine.
pub(crate) struct Closed {
    pub(crate) ledger: Arc<Shared>,
    pub(crate) entry: Entry,
    /// More transactions wait behind it.
    pub(crate) more: bool,
    last_lsn: Lsn,
    trims: Vec<Trim>,
}

impl Ledger {
    /// The partition that this is.
    pub fn partition(&self) -> Partition {
        self.shared.partition
    }

    /// The epoch in which it is held.
    pub fn epoch(&self) -> Epoch {
        self.shared.read().epoch
    }

    /// Stages a transaction: it is ordered now and durable soon. Follow it with
    /// [`Ledger::wait`].
    pub fn stage(&self, writes: Writes) -> Result<Staged> {
        let mut state = self.shared.begin(&writes)?;
        Ok(self.shared.stage(&mut state, writes))
    }

    /// Stages a transaction and waits until it is durable. The commit goes on if
    /// the returned future is dropped.
    pub fn commit(&self, writes: Writes) -> impl Future<Output = Result<Staged>> + Send + 'static {
        let staged = self.shared.begin(&writes).map(|mut state| {
            let staged = self.shared.stage(&mut state, writes);
            let (sender, receiver) = oneshot::channel();
            state.waiters.push_back((staged.lsn, sender));
            (staged, receiver)
        });
        async move {
            let (staged, receiver) = staged?;
            receiver.await.map_err(|_| Error::new(Kind::Closed))??;
            Ok(staged)
        }
    }

    /// Waits until the transaction at `lsn` is durable.
    pub async fn wait(&self, lsn: Lsn) -> Result<()> {
        let receiver = {
            let mut state = self.shared.write();
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            if state.is_taken_back(lsn) {
                let partition = self.shared.partition;
                return Err(Error::new(Kind::TakenBack { partition }));
            }
            if lsn <= state.durable_lsn {
                return Ok(());
            }
            let (sender, receiver) = oneshot::channel();
            let index = state.waiters.partition_point(|(other, _)| *other <= lsn);
            state.waiters.insert(index, (lsn, sender));
            receiver
        };
        receiver.await.map_err(|_| Error::new(Kind::Closed))?
    }

    /// The last durable LSN, to be followed.
    pub fn durable(&self) -> watch::Receiver<Lsn> {
        self.shared.durable()
    }

    /// The owner's time: it never goes back, whatever the clock does.
    pub fn time(&self) -> Timestamp {
        self.shared.node.clock.now().max(self.shared.read().time)
    }

    /// How often staged writes were taken back. Whoever reads with
    /// [`View::Staged`] notes this first and stages with [`Ledger::stage_after`].
    pub fn rollbacks(&self) -> u64 {
        self.shared.read().rollbacks
    }

    /// Stages a transaction that was computed from staged writes, unless some of
    /// them have been taken back since `rollbacks` was noted.
    pub fn stage_after(&self, rollbacks: u64, writes: Writes) -> Result<Staged> {
        let mut state = self.shared.begin(&writes)?;
        if state.rollbacks != rollbacks {
            let partition = self.shared.partition;
            return Err(Error::new(Kind::TakenBack { partition }));
        }
        Ok(self.shared.stage(&mut state, writes))
    }

    /// Looks a row up in memory only.
    pub fn peek(&self, table: Table, key: &[u8], view: View) -> Result<Peek> {
        let state = self.shared.alive()?;
        let at = match view {
            View::Durable => state.durable_lsn,
            View::Staged => Lsn::MAX,
        };
        Ok(self.shared.peek(&state, table, key, at))
    }

    /// Reads a row, from the tables if memory does not have it.
    pub async fn get(&self, table: Table, key: &[u8], view: View) -> Result<Option<Bytes>> {
        match self.peek(table, key, view)? {
            Peek::Found(value) => Ok(value),
            Peek::Missing => self.shared.load(table, key).await,
        }
    }

    /// Begin, end and newest time of a stream; `None` if it was never written.
    pub fn stream(&self, stream: Stream) -> Result<Option<Head>> {
        Ok(self.shared.alive()?.streams.head(stream))
    }

    /// Durable batches of a stream from the one that holds `from` on, until about
    /// `max_bytes`; empty at the end. What was trimmed is skipped.
    pub async fn read_events(
        &self,
        stream: Stream,
        from: Start,
        max_bytes: usize,
    ) -> Result<Vec<EventBatch>> {
        let head = {
            let state = self.shared.alive()?;
            let Some(head) = state.streams.head(stream) else {
                return Ok(Vec::new());
            };
            if let Some(batches) = state.streams.cached(stream, from, max_bytes) {
                return Ok(batches);
            }
            head
        };
        let from = match from {
            Start::Sequence(sequence) => Start::Sequence(sequence.max(head.first)),
            Start::Offset(offset) => Start::Offset(offset.max(head.first_offset)),
            Start::Time(_) => from,
        };
        let read = |from| self.read_batches(stream, head, from, max_bytes);
        match read(from).await {
            // Times never go back, so from the first one on all are late enough.
            Ok(batches) if batches.is_empty() && matches!(from, Start::Time(_)) => {
                let batches = read(Start::Sequence(head.first)).await?;
                let is_late = batches.first().is_some_and(|batch| !from.is_past(batch));
                Ok(if is_late { batches } else { Vec::new() })
            }
            // A trim may have removed the file under the reader.
            Err(error) if matches!(error.kind(), Kind::Corrupt { .. }) => {
                match self.stream(stream)? {
                    Some(now) if now.first > head.first => {
                        let from = Start::Sequence(now.first);
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
        stream: Stream,
        head: Head,
        from: Start,
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

/// What memory knows of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peek {
    /// The row, or that there is none.
    Found(Option<Bytes>),
    /// Only the tables can tell: see [`Ledger::get`].
    Missing,
}

impl Shared {
    pub(crate) fn new(
        partition: Partition,
        node: Arc<Node>,
        ready: Arc<Queue<Arc<Self>>>,
        state: State,
    ) -> Self {
        let (durable, _) = watch::channel(state.durable_lsn);
        Self {
            partition,
            node,
            state: RwLock::new(state),
            durable,
            ready,
            flushing: tokio::sync::Mutex::new(()),
        }
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read()
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write()
    }

    pub(crate) fn alive(&self) -> Result<RwLockReadGuard<'_, State>> {
        let state = self.state.read();
        match &state.failed {
            Some(error) => Err(error.clone()),
            None => Ok(state),
        }
    }

    /// Refuses a transaction before anything has changed.
    fn begin(&self, writes: &Writes) -> Result<RwLockWriteGuard<'_, State>> {
        writes.check()?;
        self.node.budget.check()?;
        let state = self.state.write();
        if let Some(error) = &state.failed {
            return Err(error.clone());
        }
        // A trim that does nothing now might do something when it is replayed.
        for (stream, first) in &writes.trims {
            if *first > state.streams.staged_end(*stream) {
                let (stream, first) = (*stream, *first);
                return Err(Error::new(Kind::TrimPastEnd { stream, first }));
            }
        }
        Ok(state)
    }

    fn stage(self: &Arc<Self>, state: &mut State, writes: Writes) -> Staged {
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
        let pending = Pending {
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
        Staged { lsn, time, places }
    }

    /// Closes the entry that was collected, up to about `max_bytes`.
    pub(crate) fn close_entry(self: &Arc<Self>, group: u64, max_bytes: usize) -> Option<Closed> {
        let mut state = self.state.write();
        let mut body = Body::default();
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
        let closed = Closed {
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
    pub(crate) fn committed(&self, closed: Closed, epoch: Epoch) {
        let mut state = self.state.write();
        state.epoch = epoch;
        state.durable_lsn = closed.last_lsn;
        state.in_flight = state.in_flight.filter(|lsn| *lsn > closed.last_lsn);
        for batch in closed.entry.batches {
            state.streams.committed(batch);
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
        for (_, waiter) in ready {
            // A caller that stopped waiting is no concern of the commit.
            let _ = waiter.send(Ok(()));
        }
    }

    /// Takes back what was staged: nothing of it was or will be written. LSNs are
    /// not given again, so that nobody takes a later transaction for an earlier.
    pub(crate) fn roll_back(&self, number: EntryNumber, error: &Error) {
        let mut state = self.state.write();
        let (durable, last) = (state.durable_lsn, EntryNumber(number.0 - 1));
        state.last = last;
        state.note_taken_back();
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

    /// Ends the ledger while an entry may be on its way: nobody can tell what
    /// becomes of that one.
    pub(crate) fn abandon(&self, error: &Error) {
        let partition = self.partition;
        let mut state = self.state.write();
        self.forget_pending(&mut state);
        let waiters = std::mem::take(&mut state.waiters);
        self.node.budget.free(state.overlay.bytes());
        state.overlay = Overlay::default();
        let error = state.failed.get_or_insert_with(|| error.clone()).clone();
        let in_flight = state.in_flight.take();
        drop(state);
        // Whoever follows the durable mark must notice, too.
        self.durable.send_modify(|_| {});
        answer(waiters, |lsn| {
            match in_flight.is_some_and(|last| lsn <= last) {
                true => Error::caused(Kind::OutcomeUnknown { partition }, error.clone()),
                false => error.clone(),
            }
        });
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

    fn peek(&self, state: &State, table: Table, key: &[u8], at: Lsn) -> Peek {
        with_row_key(table, key, |row| match state.overlay.find(row, table, at) {
            Found::Value(value) => Peek::Found(Some(value)),
            Found::Absent => Peek::Found(None),
            Found::Unknown => match self.node.cache.get(state.cache_version, row) {
                Some(value) => Peek::Found(value),
                None => Peek::Missing,
            },
        })
    }

    /// Reads a row from the tables and remembers it.
    pub(crate) async fn load(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>> {
        let (drops, version) = {
            let state = self.alive()?;
            (state.overlay.drops, state.cache_version)
        };
        let value = self.node.engine.get(self.partition, table, key).await?;
        let state = self.alive()?;
        with_row_key(table, key, |row| {
            // While we read, the row may have been written (then memory answers)
            // and even flushed (then what we read is old). Remember neither.
            let is_current = state.overlay.drops == drops
                && state.cache_version == version
                && state.overlay.find(row, table, Lsn::MAX) == Found::Unknown;
            if is_current {
                self.node.cache.put(version, row, value.as_ref());
            }
        });
        Ok(value)
    }

    /// A row at an LSN, wherever it is.
    pub(crate) async fn get_at(&self, table: Table, key: &[u8], at: Lsn) -> Result<Option<Bytes>> {
        let peek = self.peek(&*self.alive()?, table, key, at);
        match peek {
            Peek::Found(value) => Ok(value),
            Peek::Missing => self.load(table, key).await,
        }
    }
}

impl Drop for Shared {
    /// Gives back what nobody can flush any more.
    fn drop(&mut self) {
        let state = self.state.get_mut();
        self.node.budget.unstage(state.pending_bytes);
        self.node.budget.free(state.overlay.bytes());
    }
}

impl State {
    /// The state of a partition that has just been acquired; entries follow by
    /// [`State::replay`].
    pub(crate) fn new(
        epoch: Epoch,
        last: EntryNumber,
        next_lsn: Lsn,
        time: Timestamp,
        streams: Streams,
        cache_version: u64,
    ) -> Self {
        Self {
            epoch,
            last,
            next_lsn,
            durable_lsn: Lsn(next_lsn.0 - 1),
            time,
            overlay: Overlay::default(),
            streams,
            pins: Pins::new(),
            cache_version,
            pending: VecDeque::new(),
            pending_bytes: 0,
            in_flight: None,
            rollbacks: 0,
            taken_back: VecDeque::new(),
            waiters: VecDeque::new(),
            queued: false,
            seal_requested: false,
            appended: 0,
            held: Vec::new(),
            failed: None,
        }
    }

    /// Applies an entry that was found in the log.
    pub(crate) fn replay(
        &mut self,
        number: EntryNumber,
        body: &Body,
        batches: Vec<EventBatch>,
        weight: u64,
    ) {
        let mut lsn = body.first_lsn;
        self.durable_lsn = self.durable_lsn.max(body.last_lsn());
        for batch in batches {
            self.streams.replay(batch);
        }
        for transaction in &body.transactions {
            for (stream, first, offset) in self.redo(lsn, transaction.operations.clone()) {
                self.streams.committed_trim(stream, first, offset);
            }
            lsn = lsn.next();
        }
        self.last = number;
        self.next_lsn = self.durable_lsn.next();
        self.time = self.time.max(body.time);
        self.account(body.last_lsn(), weight, 0);
    }

    /// Brings a transaction's rows into the overlay; answers its trims.
    fn redo(&mut self, lsn: Lsn, bytes: Bytes) -> Vec<Trim> {
        let (durable, pins) = (self.durable_lsn, &self.pins);
        let mut trims = Vec::new();
        for operation in operations(bytes) {
            let operation = operation.expect("encoded by us or checked when decoded");
            if let Operation::Trim(stream, first, offset) = operation {
                if !self.streams.stage_trim(stream, first, offset) {
                    continue;
                }
                trims.push((stream, first, offset));
            }
            self.overlay.apply(lsn, operation, durable, pins);
        }
        trims
    }

    /// Everything after the last durable transaction was taken back.
    fn note_taken_back(&mut self) {
        // Nobody asks after so many others.
        const KEPT: usize = 1024;
        let (first, last) = (self.durable_lsn.next(), Lsn(self.next_lsn.0 - 1));
        self.rollbacks += 1;
        match self.taken_back.back_mut() {
            Some(range) if range.0 == first => range.1 = last,
            _ => self.taken_back.push_back((first, last)),
        }
        if self.taken_back.len() > KEPT {
            self.taken_back.pop_front();
        }
    }

    fn is_taken_back(&self, lsn: Lsn) -> bool {
        let later = self.taken_back.partition_point(|(first, _)| *first <= lsn);
        let range = later
            .checked_sub(1)
            .and_then(|index| self.taken_back.get(index));
        range.is_some_and(|(_, last)| lsn <= *last)
    }

    fn account(&mut self, lsn: Lsn, bytes: u64, group: u64) {
        self.overlay.add_bytes(lsn, bytes, group, self.last);
        self.appended += bytes;
    }
}

fn place(batch: &EventBatch) -> Place {
    Place {
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
fn with_row_key<T>(table: Table, key: &[u8], then: impl FnOnce(&[u8]) -> T) -> T {
    const SHORT: usize = 256;
    if key.len() + 4 > SHORT {
        return then(&crate::body::row_key(table, key));
    }
    let mut row = [0; SHORT];
    row[..4].copy_from_slice(&table.0.to_be_bytes());
    row[4..4 + key.len()].copy_from_slice(key);
    then(&row[..4 + key.len()])
}

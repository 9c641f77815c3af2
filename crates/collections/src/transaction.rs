//! A transaction over the collections of one partition.
//!
//! One operation at a time: every operation borrows it mutably, and ending it consumes
//! it, so the compiler rejects uses that other systems leave undefined. Locks are kept
//! until the commit is durable or the transaction has ended. Dropping it aborts it, at no
//! cost: nothing was written.
//!
//! A transaction that is open for longer than 30 seconds is faulted. There is no
//! background reaper: the next waiter on one of its locks, or its own next operation,
//! detects that it has expired.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use steadfast_core::id::{Lsn, TableId};
use steadfast_core::limits;
use steadfast_storage::engine::{Scan, TableRow};
use tokio::time::Instant;

use crate::collection::{Collection, CollectionStage};
use crate::commit_path::StagedCommands;
use crate::error::{Error, ErrorKind, Result};
use crate::lock::latch::ParkingLatch;
use crate::lock::mode::LockStrength;
use crate::lock::name::{self, LockName, Subject};
use crate::lock::owner::{LockOwner, TransactionPhase};
use crate::lock::resident::CachedValue;
use crate::lock::table::{Blocker, LockAttempt, LockWait, WaitOutcome};
use crate::options::WaitDeadline;
use crate::outgoing_message::OutgoingMessage;
use crate::replica_inner::ReplicaInner;
use crate::source::PinnedState;
use crate::writeset::WriteSet;

/// A transaction. Dropping it without a commit aborts it.
#[must_use = "a transaction that is not committed changes nothing"]
pub struct Tx {
    pub(crate) inner: Arc<ReplicaInner>,
    pub(crate) owner: Arc<LockOwner<ParkingLatch>>,
    pub(crate) writes: WriteSet,
    /// Commands and messages that share its commit.
    pub(crate) staged: StagedCommands,
    /// Collections that it has entered.
    entered: Vec<TableId>,
    pinned: Option<PinnedState>,
    /// Fixed when it began: reads on a replica that was no primary never lock.
    is_primary: bool,
    /// Buffer for lock names and keys, so that a read allocates nothing.
    name: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

/// Why a transaction is ended by the system.
const TOO_OLD: &str = "it was open for more than 30 seconds";
const PANICKED: &str = "a closure that it was given panicked";

/// Ranges that are read side by side.
const RANGES_AT_ONCE: usize = 16;

/// Interval at which a waiter checks whether a holder has expired.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl Tx {
    /// Begins a transaction; this never fails.
    pub(crate) fn begin(home: &Arc<ReplicaInner>) -> Self {
        Self::begin_as(home, None)
    }

    /// Begins another attempt of a transaction: it is as old as the first one.
    pub(crate) fn begin_as(home: &Arc<ReplicaInner>, rank: Option<u64>) -> Self {
        let id = home.next_transaction();
        let owner = LockOwner::ranked(id, rank.unwrap_or(id), home.locks.now_us());
        Self {
            inner: Arc::clone(home),
            owner,
            writes: WriteSet::default(),
            staged: StagedCommands::default(),
            entered: Vec::new(),
            pinned: None,
            is_primary: home.may_write(),
            name: Vec::new(),
            key: Vec::new(),
        }
    }

    /// The number of the transaction, unique while its replica lives.
    pub fn id(&self) -> u64 {
        self.owner.id
    }

    /// The bytes that a transaction may write in all: keys, values, items and events,
    /// and some for each of them.
    pub const MAX_BYTES: usize = limits::PUBLIC_TRANSACTION_BYTES;

    /// The bytes that it may still write. An operation that needs more fails with
    /// `TooLarge` and changes nothing; the transaction goes on without it.
    pub fn room(&self) -> usize {
        Self::MAX_BYTES - self.writes.bytes()
    }

    /// The last transaction that its snapshot reads see for certain; `None` before
    /// the first of them.
    pub fn snapshot_lsn(&self) -> Option<Lsn> {
        self.pinned.as_ref().map(PinnedState::lsn)
    }

    /// Sends a message with the commit, to whatever partition its receiver lives in:
    /// exactly once, after the commit, and to one receiver in the order of the calls. A
    /// transaction that does not commit sends nothing.
    ///
    /// Messages are built by the service crates. One that is invalid or too large is
    /// refused here; one whose target does not exist is refused by the commit, as far as
    /// that is known then.
    pub fn send(&mut self, message: impl OutgoingMessage) -> Result<()> {
        self.check_commit_path()?;
        let message = message.into_bytes()?;
        self.check_staged(message.len())?;
        self.staged.messages.push(message);
        Ok(())
    }

    /// Adds a command to an instance of this partition, encoded for the runtime: it runs
    /// with the commit, or not at all. The commit refuses a command to an instance of
    /// another partition, which only [`Tx::send`] reaches.
    pub fn stage(&mut self, command: Bytes) -> Result<()> {
        self.check_commit_path()?;
        self.check_staged(command.len())?;
        self.staged.commands.push(command);
        Ok(())
    }

    /// Refuses to stage anything where no runtime would deliver it.
    fn check_commit_path(&self) -> Result<()> {
        self.check_write()?;
        if self.inner.commit_path.is_some() {
            return Ok(());
        }
        let what = if self.inner.is_volatile {
            "sending from a transaction of a volatile service"
        } else {
            "sending from a transaction without a node around it"
        };
        let what = what.to_owned();
        Err(Error::new(ErrorKind::Unsupported { what }))
    }

    fn check_staged(&self, more: usize) -> Result<()> {
        let (bytes, limit) = (self.staged.bytes() + more, limits::PUBLIC_TRANSACTION_BYTES);
        if bytes <= limit {
            return Ok(());
        }
        let what = "all that a transaction sends";
        Err(Error::new(ErrorKind::TooLarge { what, bytes, limit }))
    }

    /// Drops all changes and releases the locks.
    pub fn abort(self) {
        drop(self);
    }

    /// Ends it in place: its changes are dropped, and every later operation fails with
    /// `TransactionClosed`.
    pub fn roll_back(&mut self) {
        self.end(TransactionPhase::Closed);
    }

    /// Whether it reads without locks, because its replica was no primary.
    pub(crate) fn reads_snapshots(&self) -> bool {
        !self.is_primary
    }

    /// Refuses an operation on a transaction that has ended or is too old.
    pub(crate) fn check(&self) -> Result<()> {
        self.inner.check_open()?;
        self.inner.check_owned()?;
        match self.owner.phase() {
            TransactionPhase::Active if !self.is_too_old() => Ok(()),
            TransactionPhase::Active => {
                self.inner.locks.end(
                    &self.owner,
                    TransactionPhase::Active,
                    TransactionPhase::Faulted(TOO_OLD),
                );
                Err(self.ended(TransactionPhase::Faulted(TOO_OLD)))
            }
            phase => Err(self.ended(phase)),
        }
    }

    /// Refuses a write on a node that does not own the partition.
    pub(crate) fn check_write(&self) -> Result<()> {
        self.check()?;
        if self.is_primary && self.inner.may_write() {
            Ok(())
        } else {
            Err(self.inner.not_primary())
        }
    }

    /// Enters a collection: locks it as a whole until this transaction ends.
    pub(crate) async fn enter(
        &mut self,
        collection: &Arc<Collection>,
        mode: LockStrength,
        patience: &mut WaitDeadline,
    ) -> Result<()> {
        let table = collection.table;
        let is_inside = self.entered.contains(&table) && self.writes.removed.is_empty();
        if mode == LockStrength::Shared && is_inside {
            return self.check();
        }
        self.check_visible(collection)?;
        self.check()?;
        if self.is_primary {
            name::write(&mut self.name, Subject::Collection, table);
            self.acquire(mode, 0, patience).await?;
            // It may have been removed while we waited.
            self.check_visible(collection)?;
        }
        if !self.entered.contains(&table) {
            self.entered.push(table);
        }
        Ok(())
    }

    /// Locks a row and returns its cached value.
    pub(crate) async fn lock_row(
        &mut self,
        collection: &Collection,
        key: &[u8],
        mode: LockStrength,
        patience: &mut WaitDeadline,
    ) -> Result<CachedValue> {
        name::write(&mut self.name, Subject::Row, collection.table);
        self.name.extend_from_slice(key);
        self.acquire(mode, collection.version(), patience).await
    }

    /// Locks a name of the registry.
    pub(crate) async fn lock_name(
        &mut self,
        key: &[u8],
        mode: LockStrength,
        patience: &mut WaitDeadline,
    ) -> Result<()> {
        name::write(&mut self.name, Subject::Name, TableId(0));
        self.name.extend_from_slice(key);
        self.acquire(mode, 0, patience).await.map(drop)
    }

    /// Caches what was read of the row that was locked last.
    pub(crate) fn remember(
        &self,
        collection: &Collection,
        key: &[u8],
        cached: CachedValue,
        len: usize,
    ) {
        let mut bytes = Vec::new();
        name::write(&mut bytes, Subject::Row, collection.table);
        bytes.extend_from_slice(key);
        let version = collection.version();
        let name = LockName::new(&bytes);
        let locks = &self.inner.locks;
        locks.remember(&self.owner, name, version, cached, len);
    }

    /// The durable bytes of a row; the caller has locked it.
    pub(crate) async fn load(&self, table: TableId, key: &[u8]) -> Result<Option<Bytes>> {
        let read = self.inner.source.get(table, key, self.id()).await;
        read.map_err(|error| self.noted(error))
    }

    /// A row in the snapshot, without this transaction's own changes.
    pub(crate) async fn snapshot_get(
        &mut self,
        table: TableId,
        key: &[u8],
    ) -> Result<Option<Bytes>> {
        let id = self.id();
        let read = self.pin().await?.get(table, key, id).await;
        read.map_err(|error| self.noted(error))
    }

    /// Rows in the snapshot, without this transaction's own changes.
    pub(crate) async fn snapshot_scan(
        &mut self,
        table: TableId,
        range: Scan,
    ) -> Result<Vec<TableRow>> {
        let id = self.id();
        let read = self.pin().await?.scan(table, range, id).await;
        read.map_err(|error| self.noted(error))
    }

    /// Keys in the snapshot, without this transaction's own changes.
    pub(crate) async fn snapshot_keys(
        &mut self,
        table: TableId,
        range: Scan,
    ) -> Result<Vec<Bytes>> {
        let id = self.id();
        let read = self.pin().await?.scan_keys(table, range, id).await;
        read.map_err(|error| self.noted(error))
    }

    /// Rows of several ranges in the snapshot, in the order of the ranges.
    pub(crate) async fn snapshot_ranges(
        &mut self,
        table: TableId,
        ranges: &[Scan],
    ) -> Result<Vec<TableRow>> {
        let id = self.id();
        let mut rows = Vec::new();
        for some in ranges.chunks(RANGES_AT_ONCE) {
            let pinned = self.pin().await?;
            let reads = some
                .iter()
                .map(|range| pinned.scan(table, range.clone(), id));
            for read in join_all(reads).await {
                rows.extend(read.map_err(|error| self.noted(error))?);
            }
        }
        Ok(rows)
    }

    /// Runs a closure of the user's; a panic in it faults the transaction.
    pub(crate) fn guarded<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let mut guard = PanicGuard(Some(self));
        let done = work();
        guard.0 = None;
        done
    }

    /// The state that all snapshot reads see, pinned by the first of them.
    async fn pin(&mut self) -> Result<&PinnedState> {
        self.check()?;
        if self.pinned.is_none() {
            self.pinned = Some(self.inner.source.pin(self.id()).await?);
        }
        Ok(self.pinned.as_ref().expect("pinned just now"))
    }

    /// Gets the lock that `self.name` names.
    async fn acquire(
        &mut self,
        mode: LockStrength,
        version: u64,
        patience: &mut WaitDeadline,
    ) -> Result<CachedValue> {
        let waits = patience.waits();
        let name = LockName::new(&self.name);
        let mut tried = 0;
        loop {
            let locks = &self.inner.locks;
            match locks.acquire(&self.owner, name, mode, version, waits) {
                LockAttempt::Granted(cached) => return Ok(cached),
                LockAttempt::Ended(phase) => return Err(self.ended(phase)),
                // The holder may have expired: fault it and try once more.
                LockAttempt::Refused(blocker) if tried == 0 && self.fault(name, &blocker) => {
                    tried += 1
                }
                LockAttempt::Refused(blocker) => return Err(self.timeout(name, &blocker)),
                LockAttempt::Busy(waiting) => {
                    self.wait(waiting, name, patience).await?;
                    return Ok(locks.peek(name, version));
                }
            }
        }
    }

    /// Waits for a lock until it is granted or the operation times out.
    async fn wait(
        &self,
        mut waiting: LockWait<ParkingLatch>,
        name: LockName<'_>,
        patience: &mut WaitDeadline,
    ) -> Result<()> {
        let deadline = patience.deadline();
        loop {
            let blocker = self.inner.locks.blocker(&self.owner, name);
            let until = Instant::now() + self.pause(blocker.as_ref());
            let until = deadline.map_or(until, |deadline| deadline.min(until));
            match tokio::time::timeout_at(until, &mut waiting).await {
                Ok(WaitOutcome::Granted) => return Ok(()),
                Ok(WaitOutcome::Ended) => return Err(self.ended(self.owner.phase())),
                Ok(WaitOutcome::Deadlock(with)) => return Err(self.deadlock(name, with)),
                Err(_) => self.check()?,
            }
            let blocker = self.inner.locks.blocker(&self.owner, name);
            if let Some(blocker) = &blocker
                && self.fault(name, blocker)
            {
                continue;
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                if waiting.give_up() {
                    return Ok(());
                }
                let blocker = blocker.unwrap_or_else(|| self.myself());
                return Err(self.timeout(name, &blocker));
            }
        }
    }

    /// How long to wait before looking at the holder again.
    fn pause(&self, blocker: Option<&Blocker>) -> Duration {
        let age = |started_us: u64| self.inner.locks.now_us().saturating_sub(started_us);
        let left = |started_us| {
            let age = Duration::from_micros(age(started_us));
            limits::TRANSACTION_AGE.saturating_sub(age)
        };
        let left = blocker.map_or(LOOK_AGAIN, |blocker| left(blocker.started_us));
        // A millisecond more, so that the holder has expired by then.
        let left = left + Duration::from_millis(1);
        left.min(LOOK_AGAIN)
    }

    /// Faults a holder that has expired; false if it has not, or commits.
    fn fault(&self, name: LockName<'_>, blocker: &Blocker) -> bool {
        if !is_too_old(self.inner.locks.now_us(), blocker.started_us) {
            return false;
        }
        let Some(holder) = self.inner.locks.holder(name, blocker.transaction) else {
            return false;
        };
        self.inner.locks.end(
            &holder,
            TransactionPhase::Active,
            TransactionPhase::Faulted(TOO_OLD),
        )
    }

    #[cold]
    fn timeout(&self, name: LockName<'_>, blocker: &Blocker) -> Error {
        Error::new(ErrorKind::LockTimeout {
            lock: self.inner.show_lock(name.bytes),
            holder: blocker.transaction,
            since: blocker.since,
        })
    }

    #[cold]
    fn deadlock(&self, name: LockName<'_>, with: Vec<u64>) -> Error {
        let lock = self.inner.show_lock(name.bytes);
        Error::new(ErrorKind::Deadlock { lock, with })
    }

    fn myself(&self) -> Blocker {
        Blocker {
            transaction: self.id(),
            since: self.inner.clock.now(),
            started_us: self.owner.started_us,
        }
    }

    fn is_too_old(&self) -> bool {
        is_too_old(self.inner.locks.now_us(), self.owner.started_us)
    }

    /// Refuses a collection that this transaction cannot see.
    pub(crate) fn check_visible(&self, collection: &Arc<Collection>) -> Result<()> {
        let name = || collection.name.clone();
        let is_mine = |other: &Arc<Collection>| Arc::ptr_eq(other, collection);
        if self.writes.removed.iter().any(is_mine) {
            return Err(Error::new(ErrorKind::NotFound { collection: name() }));
        }
        match collection.life() {
            CollectionStage::Live => collection.check_keys(),
            CollectionStage::Creating(id) if id == self.id() => Ok(()),
            CollectionStage::Creating(_) => {
                Err(Error::new(ErrorKind::NotVisible { collection: name() }))
            }
            CollectionStage::Removed => Err(Error::new(ErrorKind::NotFound { collection: name() })),
        }
    }

    /// Faults this transaction if the error says that the system has ended it.
    fn noted(&self, error: Error) -> Error {
        if let ErrorKind::TransactionFaulted { why, .. } = error.kind() {
            self.inner.locks.end(
                &self.owner,
                TransactionPhase::Active,
                TransactionPhase::Faulted(why),
            );
        }
        error
    }

    pub(crate) fn ended(&self, phase: TransactionPhase) -> Error {
        let transaction = self.id();
        Error::new(match phase {
            TransactionPhase::Faulted(why) => ErrorKind::TransactionFaulted { transaction, why },
            _ => ErrorKind::TransactionClosed { transaction },
        })
    }

    /// Returns dequeued items and releases its locks.
    fn end(&mut self, to: TransactionPhase) {
        for (queue, place) in self.writes.taken.drain(..) {
            queue.items.put(place);
        }
        for collection in self.writes.created.drain(..) {
            collection.set_life(CollectionStage::Removed);
        }
        self.writes = WriteSet::default();
        self.staged = StagedCommands::default();
        self.pinned = None;
        self.inner
            .locks
            .end(&self.owner, TransactionPhase::Active, to);
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        self.end(TransactionPhase::Closed);
    }
}

struct PanicGuard<'a>(Option<&'a mut Tx>);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if let Some(tx) = self.0.take() {
            tx.end(TransactionPhase::Faulted(PANICKED));
        }
    }
}

fn is_too_old(now_us: u64, started_us: u64) -> bool {
    Duration::from_micros(now_us.saturating_sub(started_us)) > limits::TRANSACTION_AGE
}

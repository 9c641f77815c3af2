//! All locks of one partition, on their resident rows.
//!
//! The table is split into shards, each behind its own latch. A grant, its
//! entry in the owner's list, and the look-up of the row's value are one step, so an
//! uncontended read costs one hash look-up and allocates nothing.
//!
//! Nothing blocks here: [`LockTable::acquire`] returns at once, with the lock or with a
//! [`LockWait`] to be awaited. Deadlocks are detected when a wait begins: see
//! `deadlock`. Latches are taken in the order shard, owner.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use steadfast_core::clock::{Clock, Timestamp};
use tokio::sync::oneshot;

use crate::lock::latch::{Latch, LatchCell};
use crate::lock::mode::LockStrength;
use crate::lock::name::{LockName, OwnedLockName};
use crate::lock::owner::{LockOwner, TransactionPhase};
pub use crate::lock::resident::WaitOutcome;
use crate::lock::resident::{CachedValue, LockShard, ResidentRow};
use crate::lock::word::LockResponse;

/// Shards of a table: enough that two tasks rarely meet.
const SHARDS: usize = 64;

/// The locks and resident rows of one partition.
pub struct LockTable<L: Latch> {
    shards: Box<[L::Of<LockShard<L>>]>,
    clock: Arc<dyn Clock>,
}

/// The response to a request for a lock.
pub enum LockAttempt<L: Latch> {
    /// Granted, with the row's cached value in the requested version.
    Granted(CachedValue),
    /// Busy: await the lock.
    Busy(LockWait<L>),
    /// Busy, and the caller does not wait: the holder, and since when.
    Refused(Blocker),
    /// The transaction has ended.
    Ended(TransactionPhase),
}

/// The transaction that blocks a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// The transaction.
    pub transaction: u64,
    /// Since when it has the lock.
    pub since: Timestamp,
    /// When it began, in microseconds of the clock.
    pub started_us: u64,
}

/// One transaction that waits for another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionWait {
    /// The transaction that waits.
    pub waiter: u64,
    /// The holder that it waits for.
    pub holder: u64,
    /// The lock.
    pub lock: String,
    /// The requested mode.
    pub mode: LockStrength,
    /// For how long so far.
    pub waited: Duration,
}

impl<L: Latch> LockTable<L> {
    /// An empty table that keeps about `bytes` of rows.
    pub fn new(clock: Arc<dyn Clock>, bytes: usize) -> Arc<Self> {
        let shard = |_| L::Of::new(LockShard::new(bytes / SHARDS));
        Arc::new(Self {
            shards: (0..SHARDS).map(shard).collect(),
            clock,
        })
    }

    /// Requests a lock. If it is busy, joins the waiters if `wait` is set.
    pub fn acquire(
        self: &Arc<Self>,
        owner: &Arc<LockOwner<L>>,
        name: LockName<'_>,
        mode: LockStrength,
        version: u64,
        wait: bool,
    ) -> LockAttempt<L> {
        let attempt = self.request(owner, name, mode, version, wait);
        if matches!(attempt, LockAttempt::Busy(_)) {
            self.break_cycles(owner);
        }
        attempt
    }

    fn request(
        self: &Arc<Self>,
        owner: &Arc<LockOwner<L>>,
        name: LockName<'_>,
        mode: LockStrength,
        version: u64,
        wait: bool,
    ) -> LockAttempt<L> {
        let now_us = self.now_us();
        self.shard(name).with(|shard| {
            let row = shard.row(name);
            let attempt = match row.lock.request(owner, mode, now_us) {
                LockResponse::Granted if !owner.hold(&row.name) => {
                    row.lock.release(owner);
                    LockAttempt::Ended(owner.phase())
                }
                LockResponse::Granted | LockResponse::Held | LockResponse::Upgraded => {
                    return LockAttempt::Granted(known(row, version));
                }
                LockResponse::Busy if !wait => LockAttempt::Refused(self.blocker_of(row, owner)),
                LockResponse::Busy => {
                    let (wake, woken) = oneshot::channel();
                    let ticket = row.lock.wait(owner, mode, now_us, wake);
                    owner.wait_for(&row.name);
                    return LockAttempt::Busy(LockWait {
                        table: Arc::clone(self),
                        name: row.name.clone(),
                        ticket,
                        woken,
                        is_done: false,
                    });
                }
            };
            self.serve(shard, name);
            shard.tidy(name);
            attempt
        })
    }

    /// The cached value of a row; the caller is responsible for its lock.
    pub fn peek(&self, name: LockName<'_>, version: u64) -> CachedValue {
        let row = |shard: &mut LockShard<L>| shard.find(name).map(|row| known(row, version));
        self.shard(name).with(row).unwrap_or_default()
    }

    /// Remembers a row's committed value, if `owner` still has its lock: one that was
    /// ended while it read may bring an old value.
    pub fn remember(
        &self,
        owner: &Arc<LockOwner<L>>,
        name: LockName<'_>,
        version: u64,
        cached: CachedValue,
        bytes: usize,
    ) {
        self.shard(name).with(|shard| {
            let row = shard.find(name);
            if row.is_some_and(|row| row.lock.mode_of(owner).is_some()) {
                shard.remember(name, version, cached, bytes);
            }
        });
    }

    /// Ends a transaction that is in phase `from` and grants its locks to their waiters;
    /// false if it is not in that phase.
    pub fn end(
        &self,
        owner: &Arc<LockOwner<L>>,
        from: TransactionPhase,
        to: TransactionPhase,
    ) -> bool {
        let Some(held) = owner.end(from, to) else {
            return false;
        };
        for name in held {
            self.release(owner, &name);
        }
        true
    }

    /// Leaves the waiters of a lock; false if it was granted before.
    pub(crate) fn cancel(&self, name: &OwnedLockName, ticket: u64) -> bool {
        let name = name.name();
        self.shard(name).with(|shard| {
            let row = shard.find(name);
            let was_waiting = row.is_some_and(|row| row.lock.cancel(ticket));
            self.serve(shard, name);
            shard.tidy(name);
            was_waiting
        })
    }

    /// The transaction that blocks `owner`: the holder that began first.
    pub fn blocker(&self, owner: &Arc<LockOwner<L>>, name: LockName<'_>) -> Option<Blocker> {
        self.shard(name).with(|shard| {
            let row = shard.find(name)?;
            let others = row.lock.holders().any(|holder| holder.owner != *owner);
            others.then(|| self.blocker_of(row, owner))
        })
    }

    /// The holder of a lock with this id.
    pub(crate) fn holder(&self, name: LockName<'_>, id: u64) -> Option<Arc<LockOwner<L>>> {
        self.shard(name).with(|shard| {
            let row = shard.find(name)?;
            let holder = row.lock.holders().find(|holder| holder.owner.id == id)?;
            Some(Arc::clone(&holder.owner))
        })
    }

    /// All current waits; `shown` turns a lock's name into text.
    pub fn waits(&self, shown: impl Fn(&[u8]) -> String) -> Vec<TransactionWait> {
        let now_us = self.now_us();
        let mut found = Vec::new();
        for shard in &self.shards {
            shard.with(|shard| {
                for row in shard.rows() {
                    collect_waits(row, now_us, &shown, &mut found);
                }
            });
        }
        found
    }

    /// How many locks are held or waited for.
    pub fn busy(&self) -> usize {
        let busy =
            |shard: &mut LockShard<L>| shard.rows().filter(|row| !row.lock.is_free()).count();
        self.shards.iter().map(|shard| shard.with(busy)).sum()
    }

    /// How many rows are resident.
    pub fn resident(&self) -> usize {
        let count = |shard: &L::Of<LockShard<L>>| shard.with(|shard| shard.len());
        self.shards.iter().map(count).sum()
    }

    /// Now, in microseconds of the clock.
    pub fn now_us(&self) -> u64 {
        u64::try_from(self.clock.monotonic().as_micros()).unwrap_or(u64::MAX)
    }

    fn release(&self, owner: &Arc<LockOwner<L>>, name: &OwnedLockName) {
        let name = name.name();
        self.shard(name).with(|shard| {
            if let Some(row) = shard.find(name) {
                row.lock.release(owner);
            }
            self.serve(shard, name);
            shard.tidy(name);
        });
    }

    pub(super) fn serve(&self, shard: &mut LockShard<L>, name: LockName<'_>) {
        let Some(row) = shard.find(name) else {
            return;
        };
        let kept = &row.name;
        let admit = |owner: &Arc<LockOwner<L>>, is_new: bool| {
            if is_new {
                owner.hold(kept)
            } else {
                owner.is_active()
            }
        };
        // A waiter that was dropped at this moment keeps the lock: see `LockWait`.
        let wake = |wake: oneshot::Sender<WaitOutcome>| {
            let _ = wake.send(WaitOutcome::Granted);
        };
        row.lock.serve(self.now_us(), admit, wake);
    }

    fn blocker_of(&self, row: &ResidentRow<L>, owner: &Arc<LockOwner<L>>) -> Blocker {
        let others = row.lock.holders().filter(|holder| holder.owner != *owner);
        let oldest = others.min_by_key(|holder| holder.owner.started_us);
        // A lock may be free and yet have waiters that come first.
        let first = row.lock.waiters().next();
        let (transaction, started_us, since_us) = match (oldest, first) {
            (Some(holder), _) => (holder.owner.id, holder.owner.started_us, holder.since_us),
            (None, Some(waiter)) => (waiter.owner.id, waiter.owner.started_us, waiter.since_us),
            (None, None) => (owner.id, owner.started_us, self.now_us()),
        };
        let held = Duration::from_micros(self.now_us().saturating_sub(since_us));
        let held_ms = i64::try_from(held.as_millis()).unwrap_or(i64::MAX);
        Blocker {
            transaction,
            since: Timestamp(self.clock.now().0.saturating_sub(held_ms)),
            started_us,
        }
    }

    pub(super) fn shard(&self, name: LockName<'_>) -> &L::Of<LockShard<L>> {
        // The upper bits: the lower ones choose the place inside the shard.
        &self.shards[(name.hash >> 48) as usize % SHARDS]
    }
}

/// A position in the queue of a lock; it resolves to the outcome of the wait.
///
/// Dropping it leaves the queue; if the lock was granted at the same moment, the
/// transaction keeps it.
pub struct LockWait<L: Latch> {
    table: Arc<LockTable<L>>,
    name: OwnedLockName,
    ticket: u64,
    woken: oneshot::Receiver<WaitOutcome>,
    is_done: bool,
}

impl<L: Latch> LockWait<L> {
    /// Stops waiting; true if the lock was granted after all.
    pub fn give_up(mut self) -> bool {
        self.is_done = true;
        let was_waiting = self.table.cancel(&self.name, self.ticket);
        !was_waiting && self.woken.try_recv() == Ok(WaitOutcome::Granted)
    }
}

impl<L: Latch> Future for LockWait<L> {
    type Output = WaitOutcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<WaitOutcome> {
        let woken = Pin::new(&mut self.woken).poll(context);
        woken.map(|answer| {
            self.is_done = true;
            answer.unwrap_or(WaitOutcome::Ended)
        })
    }
}

impl<L: Latch> Drop for LockWait<L> {
    fn drop(&mut self) {
        if !self.is_done {
            self.table.cancel(&self.name, self.ticket);
        }
    }
}

fn known<L: Latch>(row: &ResidentRow<L>, version: u64) -> CachedValue {
    if row.version == version {
        row.cached.clone()
    } else {
        CachedValue::Unknown
    }
}

fn collect_waits<L: Latch>(
    row: &ResidentRow<L>,
    now_us: u64,
    shown: &impl Fn(&[u8]) -> String,
    found: &mut Vec<TransactionWait>,
) {
    for waiter in row.lock.waiters() {
        for holder in row.lock.holders() {
            if holder.owner == waiter.owner {
                continue;
            }
            found.push(TransactionWait {
                waiter: waiter.owner.id,
                holder: holder.owner.id,
                lock: shown(&row.name.bytes),
                mode: waiter.mode,
                waited: Duration::from_micros(now_us.saturating_sub(waiter.since_us)),
            });
        }
    }
}

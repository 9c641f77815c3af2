//! The owner of locks: one transaction, as others see it.
//!
//! The list of its locks and its phase change together, so that no lock is granted
//! that would never be released: ending an owner takes the list, and from then on
//! grants are refused.

use std::sync::Arc;

use crate::lock::latch::{Latch, LatchCell};
use crate::lock::name::OwnedLockName;

/// The locking side of a transaction.
pub struct LockOwner<L: Latch> {
    /// Names the transaction.
    pub id: u64,
    /// Its age among others: the id of its first attempt. The lower, the older.
    pub rank: u64,
    /// When it began, in microseconds of the clock.
    pub started_us: u64,
    state: L::Of<State>,
}

struct State {
    phase: TransactionPhase,
    held: Vec<OwnedLockName>,
    /// The lock that it has waited for last.
    waiting: Option<OwnedLockName>,
}

/// The phase of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionPhase {
    /// All operations are allowed.
    Active,
    /// Its commit is under way: only the outcome of the commit may end it.
    Committing,
    /// The system has ended it, for this reason.
    Faulted(&'static str),
    /// Its user has ended it, or it was committed.
    Closed,
}

impl<L: Latch> LockOwner<L> {
    /// A transaction that holds nothing.
    pub fn new(id: u64, started_us: u64) -> Arc<Self> {
        Self::ranked(id, id, started_us)
    }

    /// Another attempt of a transaction that began as `rank`.
    pub fn ranked(id: u64, rank: u64, started_us: u64) -> Arc<Self> {
        Arc::new(Self {
            id,
            rank,
            started_us,
            state: L::Of::new(State {
                phase: TransactionPhase::Active,
                held: Vec::new(),
                waiting: None,
            }),
        })
    }

    /// The current phase.
    pub fn phase(&self) -> TransactionPhase {
        self.state.with(|state| state.phase)
    }

    /// How many locks it holds.
    pub fn held(&self) -> usize {
        self.state.with(|state| state.held.len())
    }

    /// The locks that it holds, if there are `most` at most.
    pub(crate) fn few_held(&self, most: usize) -> Option<Vec<OwnedLockName>> {
        self.state
            .with(|state| (state.held.len() <= most).then(|| state.held.clone()))
    }

    /// Records the lock that it waits for. Whether it still waits is recorded in the
    /// lock's waiters.
    pub(crate) fn wait_for(&self, name: &OwnedLockName) {
        self.state.with(|state| state.waiting = Some(name.clone()));
    }

    /// The lock that it has waited for last.
    pub(crate) fn waiting(&self) -> Option<OwnedLockName> {
        self.state.with(|state| state.waiting.clone())
    }

    /// Adds a lock, unless the transaction has ended.
    pub(crate) fn hold(&self, name: &OwnedLockName) -> bool {
        self.state.with(|state| {
            let may_hold = state.phase == TransactionPhase::Active;
            if may_hold {
                state.held.push(name.clone());
            }
            may_hold
        })
    }

    /// Whether a lock that it holds may grow.
    pub(crate) fn is_active(&self) -> bool {
        self.phase() == TransactionPhase::Active
    }

    /// Moves from active to another phase; false if it is not active any more.
    pub(crate) fn leave_active(&self, to: TransactionPhase) -> bool {
        self.state.with(|state| {
            let is_active = state.phase == TransactionPhase::Active;
            if is_active {
                state.phase = to;
            }
            is_active
        })
    }

    /// Ends it from phase `from` and takes its locks; `None` if it is in another phase.
    pub(crate) fn end(
        &self,
        from: TransactionPhase,
        to: TransactionPhase,
    ) -> Option<Vec<OwnedLockName>> {
        self.state.with(|state| {
            (state.phase == from).then(|| {
                state.phase = to;
                state.waiting = None;
                std::mem::take(&mut state.held)
            })
        })
    }
}

impl<L: Latch> PartialEq for LockOwner<L> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

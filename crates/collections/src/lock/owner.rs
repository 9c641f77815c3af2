//! Who holds locks: one transaction, as others see it.
//!
//! The list of what it holds and its phase change together, so that nobody is
//! granted a lock that nobody would release: whoever ends an owner takes the list,
//! and from then on grants are refused.

use std::sync::Arc;

use crate::lock::latch::{Guarded, Latch};
use crate::lock::name::Kept;

/// The locking side of a transaction.
pub struct Owner<L: Latch> {
    /// Names the transaction.
    pub id: u64,
    /// Its age among others: the id of its first attempt. The lower, the older.
    pub rank: u64,
    /// When it began, in microseconds of the clock.
    pub started_us: u64,
    state: L::Of<State>,
}

struct State {
    phase: Phase,
    held: Vec<Kept>,
    /// The lock that it has waited for last.
    waiting: Option<Kept>,
}

/// Where a transaction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It may do anything.
    Active,
    /// It is on its way to the log: nobody may end it but its commit.
    Committing,
    /// The system has ended it, and says why.
    Faulted(&'static str),
    /// It is over.
    Closed,
}

impl<L: Latch> Owner<L> {
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
                phase: Phase::Active,
                held: Vec::new(),
                waiting: None,
            }),
        })
    }

    /// Where it stands.
    pub fn phase(&self) -> Phase {
        self.state.with(|state| state.phase)
    }

    /// How many locks it holds.
    pub fn held(&self) -> usize {
        self.state.with(|state| state.held.len())
    }

    /// The locks that it holds, if there are `most` at most.
    pub(crate) fn few_held(&self, most: usize) -> Option<Vec<Kept>> {
        self.state
            .with(|state| (state.held.len() <= most).then(|| state.held.clone()))
    }

    /// Notes the lock that it waits for. Whether it still does, its waiters say.
    pub(crate) fn wait_for(&self, name: &Kept) {
        self.state.with(|state| state.waiting = Some(name.clone()));
    }

    /// The lock that it has waited for last.
    pub(crate) fn waiting(&self) -> Option<Kept> {
        self.state.with(|state| state.waiting.clone())
    }

    /// Notes a lock, unless the transaction has ended.
    pub(crate) fn hold(&self, name: &Kept) -> bool {
        self.state.with(|state| {
            let may_hold = state.phase == Phase::Active;
            if may_hold {
                state.held.push(name.clone());
            }
            may_hold
        })
    }

    /// Whether a lock that it holds may grow.
    pub(crate) fn is_active(&self) -> bool {
        self.phase() == Phase::Active
    }

    /// Moves from active to another phase; false if it is not active any more.
    pub(crate) fn leave_active(&self, to: Phase) -> bool {
        self.state.with(|state| {
            let is_active = state.phase == Phase::Active;
            if is_active {
                state.phase = to;
            }
            is_active
        })
    }

    /// Ends it from phase `from` and takes its locks; `None` if somebody else has.
    pub(crate) fn end(&self, from: Phase, to: Phase) -> Option<Vec<Kept>> {
        self.state.with(|state| {
            (state.phase == from).then(|| {
                state.phase = to;
                state.waiting = None;
                std::mem::take(&mut state.held)
            })
        })
    }
}

impl<L: Latch> PartialEq for Owner<L> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

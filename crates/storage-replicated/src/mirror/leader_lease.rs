//! The leader lease of a region of a pair.
//!
//! The pair's agreement changes it; the mirror and all request handlers check it. It ends
//! by itself, by a clock that counts sleep.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steadfast_core::clock::Clock;
use steadfast_storage::NodeLease;
use tokio::sync::watch;

/// The replication mode of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaderMode {
    /// It is not the owner.
    Away,
    /// The witness knows that the other region does not have everything.
    Alone,
    /// What is acknowledged is in both regions.
    Synced,
}

/// A region's leader lease. It is shared.
pub struct LeaderLease {
    clock: Arc<dyn Clock>,
    lease: NodeLease,
    state: Mutex<State>,
    changes: watch::Sender<u64>,
}

#[derive(Clone, Copy)]
struct State {
    epoch: u64,
    mode: LeaderMode,
    /// The other region is unreachable: the owner asks to work alone.
    wants_alone: bool,
    /// When the first thing was acknowledged that the other region does not have.
    alone_since: Option<Duration>,
}

impl LeaderLease {
    /// A lease that is not held yet.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            lease: NodeLease::new(Arc::clone(&clock)),
            clock,
            state: Mutex::new(State {
                epoch: 0,
                mode: LeaderMode::Away,
                wants_alone: false,
                alone_since: None,
            }),
            changes: watch::channel(0).0,
        }
    }

    /// The lease for the store above the mirror: it reads from memory while this holds.
    pub fn lease(&self) -> NodeLease {
        self.lease.clone()
    }

    /// The current time of the lease's clock.
    pub fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    /// The epoch in which this region may answer, claim and send right now.
    pub fn epoch(&self) -> Option<u64> {
        let state = self.state.lock();
        (state.mode != LeaderMode::Away && self.lease.holds()).then_some(state.epoch)
    }

    /// The current mode.
    pub fn mode(&self) -> LeaderMode {
        self.state.lock().mode
    }

    /// How old the oldest acknowledged change is that the other region may not have.
    pub fn lag(&self) -> Duration {
        let since = self.state.lock().alone_since;
        since.map_or(Duration::ZERO, |since| self.now().saturating_sub(since))
    }

    /// Notifies when anything but the time has changed.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Makes this region the owner, alone, until `until`.
    pub fn acquire(&self, epoch: u64, until: Duration) {
        self.change(|state| {
            *state = State {
                epoch,
                mode: LeaderMode::Alone,
                wants_alone: false,
                alone_since: None,
            };
            self.lease.begin(until);
        });
    }

    /// Extends the lease to `until`; false if it had already ended.
    pub fn extend(&self, epoch: u64, until: Duration) -> bool {
        let state = self.state.lock();
        state.epoch == epoch && state.mode != LeaderMode::Away && self.lease.extend(until)
    }

    /// Ends ownership.
    pub fn release(&self) {
        self.change(|state| {
            self.lease.begin(Duration::ZERO);
            state.mode = LeaderMode::Away;
            state.wants_alone = false;
            state.alone_since = None;
        });
    }

    /// The other region has everything from now on.
    pub fn mark_synced(&self, epoch: u64) {
        self.change(|state| {
            if state.epoch == epoch && state.mode == LeaderMode::Alone {
                state.mode = LeaderMode::Synced;
                state.wants_alone = false;
                state.alone_since = None;
            }
        });
    }

    /// The witness has recorded that the owner works alone.
    pub fn mark_alone(&self, epoch: u64) {
        self.change(|state| {
            if state.epoch == epoch && state.mode == LeaderMode::Synced {
                state.mode = LeaderMode::Alone;
                state.wants_alone = false;
            }
        });
    }

    /// Asks to work alone.
    pub fn request_alone(&self) {
        let is_news = {
            let state = self.state.lock();
            state.mode == LeaderMode::Synced && !state.wants_alone
        };
        if is_news {
            self.change(|state| state.wants_alone = state.mode == LeaderMode::Synced);
        }
    }

    /// Whether the owner has asked to work alone.
    pub fn is_alone_requested(&self) -> bool {
        self.state.lock().wants_alone
    }

    /// Something was acknowledged that the other region does not have.
    pub(super) fn note_alone(&self) {
        let now = self.now();
        self.state.lock().alone_since.get_or_insert(now);
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock());
        self.changes.send_modify(|count| *count += 1);
    }
}

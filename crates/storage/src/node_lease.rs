//! Until when a node may answer from memory.
//!
//! The engine fences writes; nothing fences a read. So a node that others may replace
//! answers from memory only while its lease holds, by its own monotonic clock, and with
//! a margin. A lease that has ended is not extended: others may have acquired partitions
//! meanwhile, so the node drops all of them first.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use steadfast_core::clock::Clock;

/// The lease of one node. Clones are the same one.
#[derive(Clone)]
pub struct NodeLease {
    clock: Arc<dyn Clock>,
    /// Microseconds of the monotonic clock.
    until: Arc<AtomicU64>,
    /// How often it began.
    tenures: Arc<AtomicU64>,
}

impl NodeLease {
    /// A lease that has not begun.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            until: Arc::default(),
            tenures: Arc::default(),
        }
    }

    /// Whether reads from memory are allowed now. Once false, it stays false until the
    /// lease begins anew.
    pub fn holds(&self) -> bool {
        self.current().is_some()
    }

    /// How often it has begun, if it holds: the same number twice means that it held all
    /// the time.
    pub fn tenure(&self) -> Option<u64> {
        let tenure = self.tenures.load(Ordering::Acquire);
        self.holds().then_some(tenure)
    }

    /// Its end, if it holds.
    fn current(&self) -> Option<u64> {
        loop {
            let until = self.until.load(Ordering::Acquire);
            if until == 0 || self.micros() < until {
                return (until != 0).then_some(until);
            }
            if self.change(until, 0) {
                return None;
            }
        }
    }

    fn change(&self, from: u64, to: u64) -> bool {
        let (done, seen) = (Ordering::AcqRel, Ordering::Acquire);
        self.until.compare_exchange(from, to, done, seen).is_ok()
    }

    /// How long it still holds.
    pub fn remaining(&self) -> Duration {
        let until = self.until.load(Ordering::Acquire);
        Duration::from_micros(until.saturating_sub(self.micros()))
    }

    /// Lets a lease that still holds last until then; answers whether it did.
    pub fn extend(&self, until: Duration) -> bool {
        let until = until.as_micros() as u64;
        while let Some(current) = self.current() {
            if self.change(current, current.max(until)) {
                return true;
            }
        }
        false
    }

    /// Begins anew, when nothing is held any more.
    pub fn begin(&self, until: Duration) {
        let until = until.as_micros() as u64;
        self.tenures.fetch_add(1, Ordering::AcqRel);
        self.until.store(until, Ordering::Release);
    }

    fn micros(&self) -> u64 {
        self.clock.monotonic().as_micros() as u64
    }
}

#[cfg(test)]
mod tests {
    use steadfast_core::clock::{Timestamp, VirtualClock};

    use super::*;

    #[test]
    fn a_lease_that_has_ended_is_not_extended() {
        let clock = VirtualClock::starting_at(Timestamp(0));
        let lease = NodeLease::new(Arc::new(clock.clone()));
        let at = Duration::from_secs;
        assert!(!lease.holds() && !lease.extend(at(9)));
        lease.begin(at(8));
        assert!(lease.holds() && lease.extend(at(10)));
        assert_eq!(lease.tenure(), Some(1));
        clock.advance(at(9));
        assert_eq!(lease.remaining(), at(1));
        clock.advance(at(1));
        assert!(!lease.holds() && !lease.extend(at(20)));
        assert_eq!((lease.remaining(), lease.tenure()), (at(0), None));
        lease.begin(at(20));
        assert!(lease.holds());
        assert_eq!(lease.tenure(), Some(2));
    }
}

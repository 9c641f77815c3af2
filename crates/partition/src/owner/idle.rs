//! Reports of an owner loop that has nothing to do.
//!
//! For nodes on virtual time: the code that moves the clock has to know when everything
//! that was due is done, and when the next timer is due. A loop that is never asked keeps
//! no record of its timers.

use bytes::Bytes;
use steadfast_core::clock::Timestamp;
use steadfast_core::limits;

use crate::execution::pending_effects::{due_of, timer_address};
use crate::ingress::address::Address;

/// The state of a partition that has nothing to do before time passes or a request
/// arrives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdleReport {
    /// When the next timer is due.
    pub next_due: Option<Timestamp>,
    /// Commands that were handled so far, of any origin.
    pub commands: u64,
    /// Timers that have fired since the last report: the first ones.
    pub fired: Vec<FiredTimer>,
    /// The number of all of them.
    pub fired_count: u64,
}

/// A timer that has fired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FiredTimer {
    /// When it was due.
    pub due: Timestamp,
    /// The instance that had set it.
    pub to: Address,
}

/// The timers that have fired since the last report.
#[derive(Default)]
pub(crate) struct FiredTimers {
    keys: Vec<Bytes>,
    count: u64,
}

impl FiredTimers {
    pub(crate) fn push(&mut self, key: &Bytes) {
        self.count += 1;
        if self.keys.len() < limits::FIRED_TIMERS {
            self.keys.push(key.clone());
        }
    }

    /// Empties the record into a report.
    pub(crate) fn report(&mut self, next_due: Option<Timestamp>, commands: u64) -> IdleReport {
        let keys = std::mem::take(&mut self.keys);
        let timer = |key: &Bytes| {
            let to = timer_address(key)?;
            let due = due_of(key);
            Some(FiredTimer { due, to })
        };
        IdleReport {
            next_due,
            commands,
            fired: keys.iter().filter_map(timer).collect(),
            fired_count: std::mem::take(&mut self.count),
        }
    }
}

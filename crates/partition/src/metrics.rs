//! Counters of a partition.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counters of one partition, written by its owner loop only.
#[derive(Debug, Default)]
pub struct Metrics {
    pub(crate) commands: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) missed: AtomicU64,
    pub(crate) timers: AtomicU64,
    pub(crate) lateness_ms: AtomicU64,
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
    pub(crate) duplicates: AtomicU64,
    pub(crate) poisoned: AtomicU64,
    pub(crate) rollbacks: AtomicU64,
    pub(crate) waiting: AtomicU64,
    pub(crate) gated: AtomicU64,
    pub(crate) backlog: AtomicU64,
    pub(crate) near_timers: AtomicU64,
    pub(crate) longest_turn_us: AtomicU64,
    pub(crate) longest_work_us: AtomicU64,
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionCounts {
    /// Commands that were handled, of any origin.
    pub commands: u64,
    /// Commands of callers that a service refused.
    pub refused: u64,
    /// How often a command had to wait for rows.
    pub missed: u64,
    /// Timers that fired.
    pub timers: u64,
    /// How late the latest timer was.
    pub lateness_ms: u64,
    /// Messages that were sent to other partitions.
    pub sent: u64,
    /// Messages of other partitions that were handled.
    pub received: u64,
    /// Messages that came again and were dropped.
    pub duplicates: u64,
    /// Messages and timers that a service refused; they became dead letters.
    pub poisoned: u64,
    /// How often staged writes were rolled back.
    pub rollbacks: u64,
    /// Commands that wait for rows now.
    pub waiting: u64,
    /// Replies and effects that wait for a durable commit now.
    pub gated: u64,
    /// Messages that have not arrived yet.
    pub backlog: u64,
    /// Timers in memory.
    pub near_timers: u64,
    /// The longest time of one owner-loop iteration.
    pub longest_turn: Duration,
    /// The longest CPU time of one owner-loop iteration. An iteration that took much
    /// longer has waited for a CPU.
    pub longest_work: Duration,
}

impl Metrics {
    /// The longest elapsed time and the longest CPU time of one iteration since the
    /// last call; resets both.
    pub fn take_longest(&self) -> (Duration, Duration) {
        let take = |longest: &AtomicU64| Duration::from_micros(longest.swap(0, Ordering::Relaxed));
        (take(&self.longest_turn_us), take(&self.longest_work_us))
    }

    /// Whether an iteration of this length may have the longest CPU time.
    pub(crate) fn may_be_longest_work(&self, took: Duration) -> bool {
        took.as_micros() as u64 > self.longest_work_us.load(Ordering::Relaxed)
    }

    /// The current counters. Each is exact; they are read at slightly different
    /// moments.
    pub fn counts(&self) -> PartitionCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PartitionCounts {
            commands: read(&self.commands),
            refused: read(&self.refused),
            missed: read(&self.missed),
            timers: read(&self.timers),
            lateness_ms: read(&self.lateness_ms),
            sent: read(&self.sent),
            received: read(&self.received),
            duplicates: read(&self.duplicates),
            poisoned: read(&self.poisoned),
            rollbacks: read(&self.rollbacks),
            waiting: read(&self.waiting),
            gated: read(&self.gated),
            backlog: read(&self.backlog),
            near_timers: read(&self.near_timers),
            longest_turn: Duration::from_micros(read(&self.longest_turn_us)),
            longest_work: Duration::from_micros(read(&self.longest_work_us)),
        }
    }
}

/// Increments a counter. Only the loop writes, so no read-modify-write is needed.
pub(crate) fn count(counter: &AtomicU64) {
    add(counter, 1);
}

pub(crate) fn add(counter: &AtomicU64, more: u64) {
    set(counter, counter.load(Ordering::Relaxed) + more);
}

pub(crate) fn set(counter: &AtomicU64, value: u64) {
    counter.store(value, Ordering::Relaxed);
}

pub(crate) fn raise(counter: &AtomicU64, value: u64) {
    if value > counter.load(Ordering::Relaxed) {
        set(counter, value);
    }
}

//! How late timers are, to the microsecond.
//!
//! Due times are milliseconds of the wall clock. The meter waits once for the wall
//! clock to tick and counts on from there with the monotonic one.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use steadfast_core::clock::{Clock, SystemClock};
use steadfast_partition::{Effect, Performer};

use crate::samples::Samples;

/// The measured lateness of timers.
#[derive(Default)]
pub(super) struct Lateness {
    /// Until the service handled the timer.
    pub(super) handled: Samples,
    /// Until what it did was durable and its effect was performed.
    pub(super) performed: Samples,
}

pub(super) struct LatenessMeter {
    clock: SystemClock,
    /// The wall clock when `clock` started.
    started_ms: i64,
    /// Only timers that are due from here on count.
    from: AtomicI64,
    lateness: Mutex<Lateness>,
}

impl LatenessMeter {
    pub(super) fn new() -> Self {
        let (mut clock, before) = (SystemClock::new(), SystemClock::new().now());
        let mut now = before;
        while now == before {
            clock = SystemClock::new();
            now = clock.now();
        }
        Self {
            clock,
            started_ms: now.0,
            from: AtomicI64::new(i64::MAX),
            lateness: Mutex::default(),
        }
    }

    /// Counts timers that are due from this time on.
    pub(super) fn count_from(&self, due: i64) {
        self.from.store(due, Ordering::Relaxed);
    }

    /// Takes the measurements since the last call.
    pub(super) fn take(&self) -> Lateness {
        std::mem::take(&mut *self.lock())
    }

    pub(super) fn handled(&self, due: i64) {
        if let Some(late) = self.late(due) {
            self.lock().handled.push(late);
        }
    }

    fn late(&self, due: i64) -> Option<Duration> {
        let counts = due >= self.from.load(Ordering::Relaxed);
        let after = Duration::from_millis(due.saturating_sub(self.started_ms).max(0) as u64);
        counts.then(|| self.clock.monotonic().saturating_sub(after))
    }

    fn lock(&self) -> MutexGuard<'_, Lateness> {
        // A panic between two pushes leaves nothing half done.
        self.lateness.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Performer for LatenessMeter {
    fn perform(&self, effect: Effect) {
        let Some(due) = effect.body.first_chunk() else {
            return;
        };
        if let Some(late) = self.late(i64::from_be_bytes(*due)) {
            self.lock().performed.push(late);
        }
    }
}

//! Measures elapsed time.

use std::time::Duration;

use steadfast_core::clock::{Clock, SystemClock};

/// Time since its start.
pub(crate) struct Stopwatch(SystemClock);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(SystemClock::new())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.monotonic()
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.elapsed().as_secs_f64()
    }
}

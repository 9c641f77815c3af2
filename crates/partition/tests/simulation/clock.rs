//! A node's clock: virtual time, and its own idea of the wall.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use steadfast_core::clock::{Clock, Timestamp};
use tokio::time::Instant;

/// When every simulation begins.
pub(crate) const START: i64 = 1_800_000_000_000;

/// Follows the paused time of the runtime; the wall may jump either way.
pub(crate) struct Jumping {
    began: Instant,
    offset_ms: AtomicI64,
}

impl Jumping {
    pub(crate) fn new(began: Instant) -> Self {
        Self {
            began,
            offset_ms: AtomicI64::new(0),
        }
    }

    pub(crate) fn jump(&self, offset_ms: i64) {
        self.offset_ms.store(offset_ms, Ordering::Relaxed);
    }
}

impl Clock for Jumping {
    fn now(&self) -> Timestamp {
        let since = self.began.elapsed().as_millis() as i64;
        Timestamp(START + since + self.offset_ms.load(Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        self.began.elapsed()
    }
}

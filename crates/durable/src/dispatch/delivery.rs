//! How work is brought to workers.

use std::time::Duration;

use steadfast_core::limits;

/// How work is brought to workers.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// How long a worker may be silent about a turn or a batch.
    pub turn_lease: Duration,
    /// How long an activity of a worker that has gone is left to it.
    pub activity_grace: Duration,
    /// An instance whose turns never come back fails.
    pub is_poison_failed: bool,
}

impl Default for Delivery {
    fn default() -> Self {
        Self {
            turn_lease: limits::TURN_LEASE,
            activity_grace: limits::ACTIVITY_GRACE,
            is_poison_failed: false,
        }
    }
}

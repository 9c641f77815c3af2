//! Options of the delivery of work to workers.

use std::time::Duration;

use steadfast_core::limits;

/// How work is delivered to workers.
#[derive(Clone, Copy, Debug)]
pub struct DeliveryOptions {
    /// How long a worker may take for a turn or a batch.
    pub turn_lease: Duration,
    /// How long an activity stays assigned to a worker that has disconnected.
    pub activity_grace: Duration,
    /// Fail an instance whose turns are lost again and again.
    pub is_poison_failed: bool,
}

impl Default for DeliveryOptions {
    fn default() -> Self {
        Self {
            turn_lease: limits::TURN_LEASE,
            activity_grace: limits::ACTIVITY_GRACE,
            is_poison_failed: false,
        }
    }
}

//! The clock of a node on virtual time.

use steadfast_core::clock::SteppedClock;
use tokio::sync::Mutex;

/// The clock of a node on virtual time.
pub(in crate::node) struct VirtualTime {
    pub(super) clock: SteppedClock,
    /// Locked while the time is moved.
    pub(super) moving: Mutex<()>,
}

impl VirtualTime {
    pub(in crate::node) fn new(clock: SteppedClock) -> Self {
        Self {
            clock,
            moving: Mutex::new(()),
        }
    }
}

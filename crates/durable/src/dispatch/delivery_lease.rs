//! Deadlines of deliveries to workers.

use std::collections::VecDeque;

use tokio::time::Instant;

use super::entry::Key;

/// Deadlines of deliveries. All leases are equally long, so they end in the order
/// in which they began.
#[derive(Default)]
pub(super) struct DeliveryLeases {
    pub(super) queue: VecDeque<DeliveryLease>,
    pub(super) is_watched: bool,
}

pub(super) struct DeliveryLease {
    pub(super) deadline: Instant,
    pub(super) key: Key,
    pub(super) number: u64,
    pub(super) attempt: u32,
}

impl DeliveryLeases {
    /// Adds a lease; returns whether the watching task has to be started.
    pub(super) fn add(&mut self, deadline: Instant, key: Key, number: u64, attempt: u32) -> bool {
        self.queue.push_back(DeliveryLease {
            deadline,
            key,
            number,
            attempt,
        });
        !std::mem::replace(&mut self.is_watched, true)
    }
}

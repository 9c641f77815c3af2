//! Counters of one hub.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a hub; they only grow.
#[derive(Default)]
pub(crate) struct HubMetrics {
    /// Clients that have connected.
    pub(crate) connected: AtomicU64,
    /// Messages received from clients.
    pub(crate) received: AtomicU64,
    /// Messages queued for clients by sends to several.
    pub(crate) delivered: AtomicU64,
    /// Clients that were closed because they did not read.
    pub(crate) dropped: AtomicU64,
    /// Clients that were migrated to another server.
    pub(crate) moved: AtomicU64,
    /// Clients that remained when a server that wanted to migrate them left.
    pub(crate) unmoved: AtomicU64,
}

/// Gauges and counters of a hub.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HubCounts {
    pub hub: String,
    pub clients: u64,
    /// Links of app servers, or 1 for the hub in this process.
    pub servers: u64,
    /// Bytes queued for clients.
    pub waiting_bytes: u64,
    pub connected: u64,
    pub received: u64,
    pub delivered: u64,
    pub dropped: u64,
    pub moved: u64,
    pub unmoved: u64,
}

/// Adds to a counter.
pub(crate) fn count(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

impl HubMetrics {
    /// The current values.
    pub(crate) fn read(&self) -> HubCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        HubCounts {
            connected: read(&self.connected),
            received: read(&self.received),
            delivered: read(&self.delivered),
            dropped: read(&self.dropped),
            moved: read(&self.moved),
            unmoved: read(&self.unmoved),
            ..HubCounts::default()
        }
    }
}

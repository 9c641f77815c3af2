//! Counters of published and delivered events.

use std::sync::atomic::{AtomicU64, Ordering};

/// Events published to and delivered by this node since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Events and bytes that were published and are durable.
    pub events_in: u64,
    pub bytes_in: u64,
    /// Events and bytes delivered to readers.
    pub events_out: u64,
    pub bytes_out: u64,
}

#[derive(Default)]
pub(crate) struct Counter {
    events_in: AtomicU64,
    bytes_in: AtomicU64,
    events_out: AtomicU64,
    bytes_out: AtomicU64,
}

impl Counter {
    pub(crate) fn taken_in(&self, events: u32, bytes: usize) {
        add(&self.events_in, u64::from(events));
        add(&self.bytes_in, bytes as u64);
    }

    pub(crate) fn handed_out(&self, events: u32, bytes: usize) {
        add(&self.events_out, u64::from(events));
        add(&self.bytes_out, bytes as u64);
    }

    pub(crate) fn read(&self) -> Traffic {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Traffic {
            events_in: read(&self.events_in),
            bytes_in: read(&self.bytes_in),
            events_out: read(&self.events_out),
            bytes_out: read(&self.bytes_out),
        }
    }
}

fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

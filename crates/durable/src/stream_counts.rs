//! Counters of the work streams of a node.
//!
//! A protocol counts here; the node waits for open streams when it drains, and shows both.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio_util::task::TaskTracker;

/// Counters of the service.
#[derive(Debug, Default)]
pub struct TaskServiceCounts {
    open: TaskTracker,
    stale: AtomicU64,
}

impl TaskServiceCounts {
    /// Open work streams.
    pub fn open(&self) -> &TaskTracker {
        &self.open
    }

    /// Results for work items that were no longer leased to the worker.
    pub fn stale(&self) -> u64 {
        self.stale.load(Ordering::Relaxed)
    }

    /// Counts such a result.
    pub fn add_stale(&self) {
        self.stale.fetch_add(1, Ordering::Relaxed);
    }
}

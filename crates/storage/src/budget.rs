//! How much log a node may keep unflushed.
//!
//! At the target the flusher starts; at the limit writers are throttled. The
//! limits bound the log on disk, the overlay in memory, and the time to reopen.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

use crate::error::{Error, ErrorKind, Result};

/// Counts unflushed log bytes of all partitions of a node.
#[derive(Debug)]
pub(crate) struct Budget {
    unflushed: AtomicU64,
    /// Staged, but in no entry yet.
    staged: AtomicU64,
    pub(crate) target: u64,
    pub(crate) limit: u64,
    /// Wakes the flusher.
    pub(crate) pressure: Notify,
}

impl Budget {
    pub(crate) fn new(target: u64, limit: u64) -> Self {
        Self {
            unflushed: AtomicU64::new(0),
            staged: AtomicU64::new(0),
            target,
            limit,
            pressure: Notify::new(),
        }
    }

    pub(crate) fn unflushed(&self) -> u64 {
        self.unflushed.load(Ordering::Relaxed)
    }

    /// Refuses new writes while too much waits to be flushed.
    pub(crate) fn check(&self) -> Result<()> {
        let (unflushed, limit) = (self.waiting(), self.limit);
        if unflushed <= limit {
            return Ok(());
        }
        self.pressure.notify_one();
        Err(Error::new(ErrorKind::Throttled { unflushed, limit }))
    }

    /// Whether new writes are refused. It does not wake the flusher, so that it can be asked
    /// again and again.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting() > self.limit
    }

    fn waiting(&self) -> u64 {
        self.unflushed() + self.staged.load(Ordering::Relaxed)
    }

    /// Counts what waits for its entry.
    pub(crate) fn stage(&self, bytes: usize) {
        self.staged.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Subtracts staged bytes that are now in an entry or were rolled back.
    pub(crate) fn unstage(&self, bytes: usize) {
        self.staged.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn add(&self, bytes: u64) {
        let before = self.unflushed.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes > self.target {
            self.pressure.notify_one();
        }
    }

    pub(crate) fn free(&self, bytes: u64) {
        self.unflushed.fetch_sub(bytes, Ordering::Relaxed);
    }
}

//! Histories that were read lately.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::event::Event;

/// Histories that were read lately.
pub(super) struct Histories {
    cache: Cache<Bytes, Arc<History>, Weight>,
    /// How many rows were read and decoded.
    pub(super) read: AtomicU64,
}

/// What turns have committed, as far as it was read.
#[derive(Clone, Default)]
pub(super) struct History {
    pub(super) execution: String,
    pub(super) rewrites: u64,
    pub(super) turns: Vec<Arc<Vec<Event>>>,
    pub(super) bytes: u64,
}

#[derive(Clone)]
struct Weight;

impl Weighter<Bytes, Arc<History>> for Weight {
    fn weight(&self, key: &Bytes, history: &Arc<History>) -> u64 {
        key.len() as u64 + history.bytes + 64
    }
}

/// What all histories in memory may come to.
const HISTORY_BYTES: u64 = 64 * 1024 * 1024;

impl Default for Histories {
    fn default() -> Self {
        Self {
            cache: Cache::with_weighter(4096, HISTORY_BYTES, Weight),
            read: AtomicU64::new(0),
        }
    }
}

impl Histories {
    pub(super) fn get(&self, key: &[u8]) -> Option<Arc<History>> {
        self.cache.get(key)
    }

    pub(super) fn keep(&self, key: &[u8], history: &Arc<History>) {
        let key = Bytes::copy_from_slice(key);
        self.cache.insert(key, Arc::clone(history));
    }
}

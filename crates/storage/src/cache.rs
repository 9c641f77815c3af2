//! A cache of rows of the tables.
//!
//! The overlay hides the cache, and the owner is the only writer, so a cached row
//! is valid until its partition's version changes: at each acquire and after each
//! clear. All partitions of a node share one budget.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use quick_cache::sync::Cache;
use quick_cache::{Equivalent, Weighter};

/// The row cache of a node.
pub(crate) struct RowCache {
    rows: Cache<Key, Option<Bytes>, Weight>,
    versions: AtomicU64,
}

#[derive(Clone, PartialEq, Eq)]
struct Key {
    version: u64,
    row: Bytes,
}

/// A borrowed [`Key`].
struct Lookup<'a> {
    version: u64,
    row: &'a [u8],
}

#[derive(Clone)]
struct Weight;

impl RowCache {
    pub(crate) fn new(bytes: u64) -> Self {
        // A guess at the size of a row; the weight is what bounds the cache.
        let rows = usize::try_from(bytes / 256).unwrap_or(usize::MAX);
        Self {
            rows: Cache::with_weighter(rows, bytes, Weight),
            versions: AtomicU64::new(1),
        }
    }

    /// A version under which nothing is cached yet.
    pub(crate) fn new_version(&self) -> u64 {
        self.versions.fetch_add(1, Ordering::Relaxed)
    }

    /// The row, if it is known; `Some(None)`: there is none.
    pub(crate) fn get(&self, version: u64, row: &[u8]) -> Option<Option<Bytes>> {
        self.rows.get(&Lookup { version, row })
    }

    /// Updates a row that is cached. A row that was never read is not added, so that a
    /// flush of many rows does not evict the cache.
    pub(crate) fn refresh(&self, version: u64, row: &[u8], value: Option<&Bytes>) {
        if self.rows.contains_key(&Lookup { version, row }) {
            self.put(version, row, value);
        }
    }

    /// Caches a row. It is copied, so that it keeps no larger buffer alive.
    pub(crate) fn put(&self, version: u64, row: &[u8], value: Option<&Bytes>) {
        let key = Key {
            version,
            row: Bytes::copy_from_slice(row),
        };
        self.rows
            .insert(key, value.map(|bytes| Bytes::copy_from_slice(bytes)));
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.version.hash(state);
        self.row.as_ref().hash(state);
    }
}

impl Hash for Lookup<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.version.hash(state);
        self.row.hash(state);
    }
}

impl Equivalent<Key> for Lookup<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.version == key.version && self.row == key.row.as_ref()
    }
}

impl Weighter<Key, Option<Bytes>> for Weight {
    fn weight(&self, key: &Key, value: &Option<Bytes>) -> u64 {
        // About what a row costs beside its bytes.
        const OVERHEAD: usize = 128;
        (key.row.len() + value.as_ref().map_or(0, Bytes::len) + OVERHEAD) as u64
    }
}

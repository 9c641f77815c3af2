//! Names of collections.
//!
//! The registry is a system table; all of its committed rows are in memory. A collection
//! that is being created is visible to its transaction only. Names are URIs: a bare word
//! `x` is stored as `urn:x`. A scope keeps the names of one service's partition apart from
//! those of others in the same partition.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use parking_lot::RwLock;
use steadfast_core::codec::{ByteReader, put_varint};
use steadfast_core::id::TableId;
use steadfast_core::limits;
use steadfast_storage::Writes;
use steadfast_storage::engine::Scan;

use crate::collection::{Collection, CollectionStage, decode};
use crate::error::{Error, ErrorKind, Result};
use crate::source::PinnedState;
use crate::tables;

/// The committed collections of a partition.
#[derive(Default)]
pub(crate) struct CollectionRegistry {
    names: RwLock<Names>,
    next: AtomicU32,
}

/// Collections by scope and name, and by number.
#[derive(Default)]
struct Names {
    by_key: BTreeMap<Vec<u8>, Arc<Collection>>,
    by_table: HashMap<TableId, Arc<Collection>>,
}

impl Names {
    fn insert(&mut self, key: Vec<u8>, collection: &Arc<Collection>) {
        let former = self.by_key.insert(key, Arc::clone(collection));
        if let Some(former) = former {
            self.by_table.remove(&former.table);
        }
        self.by_table
            .insert(collection.table, Arc::clone(collection));
    }
}

/// The row that keeps the next free number; no scope begins like this.
const NEXT: &[u8] = b"\x00next";

/// Ends a scope.
const END: u8 = 0;

impl CollectionRegistry {
    /// Reads all names.
    pub(crate) async fn load(state: &PinnedState) -> Result<Self> {
        let registry = Self::default();
        registry
            .next
            .store(tables::FIRST_COLLECTION, Ordering::Relaxed);
        let counts = load_counts(state).await?;
        for (key, value) in rows(state, tables::REGISTRY).await? {
            if key == NEXT {
                let next = ByteReader::new(value).varint_u32().map_err(malformed)?;
                registry.next.fetch_max(next, Ordering::Relaxed);
                continue;
            }
            let collection = read(&key, value, &counts)?;
            let after = collection.table.0.saturating_add(1);
            registry.next.fetch_max(after, Ordering::Relaxed);
            let mut names = registry.names.write();
            names.insert(key.to_vec(), &Arc::new(collection));
        }
        Ok(registry)
    }

    pub(crate) fn find(&self, scope: &str, name: &str) -> Option<Arc<Collection>> {
        self.names.read().by_key.get(&key(scope, name)).cloned()
    }

    /// A number that no collection had before.
    pub(crate) fn next_table(&self) -> TableId {
        TableId(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// The committed collection with this number.
    pub(crate) fn with_table(&self, table: TableId) -> Option<Arc<Collection>> {
        self.names.read().by_table.get(&table).cloned()
    }

    /// All committed collections, by scope and name.
    pub(crate) fn all(&self) -> Vec<Arc<Collection>> {
        self.names.read().by_key.values().cloned().collect()
    }

    /// Committed names of a scope, in order.
    pub(crate) fn list(&self, scope: &str) -> Vec<Arc<Collection>> {
        let names = self.names.read();
        let of_scope = names.by_key.values().filter(|c| c.scope == scope);
        of_scope.cloned().collect()
    }

    /// Makes a creation visible.
    pub(crate) fn add(&self, collection: &Arc<Collection>) {
        collection.set_life(CollectionStage::Live);
        let key = key(&collection.scope, &collection.name);
        self.names.write().insert(key, collection);
    }

    /// Makes a removal visible.
    pub(crate) fn remove(&self, collection: &Arc<Collection>) {
        collection.set_life(CollectionStage::Removed);
        let key = key(&collection.scope, &collection.name);
        let mut names = self.names.write();
        let known = names.by_key.get(&key);
        if known.is_some_and(|known| Arc::ptr_eq(known, collection)) {
            names.by_key.remove(&key);
            names.by_table.remove(&collection.table);
        }
    }

    /// Writes rows for created and removed collections.
    pub(crate) fn write(
        &self,
        writes: &mut Writes,
        created: &[Arc<Collection>],
        removed: &[Arc<Collection>],
    ) {
        for collection in removed {
            let key = key(&collection.scope, &collection.name);
            writes.delete(tables::REGISTRY, &key);
        }
        for collection in created {
            let key = key(&collection.scope, &collection.name);
            writes.put(tables::REGISTRY, &key, &collection.encode());
        }
        if !(created.is_empty() && removed.is_empty()) {
            let mut next = Vec::new();
            put_varint(&mut next, u64::from(self.next.load(Ordering::Relaxed)));
            writes.put(tables::REGISTRY, NEXT, &next);
        }
    }
}

/// Looks up one name in a pinned state, without the registry in memory.
pub(crate) async fn look_up(
    state: &PinnedState,
    scope: &str,
    name: &str,
) -> Result<Option<Collection>> {
    let key = key(scope, name);
    let row = state.get(tables::REGISTRY, &key, 0).await?;
    row.map(|value| read(&key, value, &BTreeMap::new()))
        .transpose()
}

/// Writes how many rows a collection has.
pub(crate) fn write_count(writes: &mut Writes, table: TableId, count: i64) {
    let mut out = Vec::new();
    put_varint(&mut out, u64::try_from(count).unwrap_or(0));
    writes.put(tables::COUNTS, &table.0.to_be_bytes(), &out);
}

/// Removes the row count of a collection that was removed or emptied.
pub(crate) fn forget_count(writes: &mut Writes, table: TableId) {
    writes.delete(tables::COUNTS, &table.0.to_be_bytes());
}

/// The stored form of a name: a bare word becomes a URN.
pub(crate) fn normal(name: &str) -> Result<String> {
    let is_uri = name.contains(':');
    let name = if is_uri {
        name.to_owned()
    } else {
        format!("urn:{name}")
    };
    let is_bad = name.ends_with(':') || name.contains(char::is_control);
    if is_bad || name.len() > limits::NAME_BYTES {
        return Err(Error::new(ErrorKind::InvalidName { name }));
    }
    Ok(name)
}

pub(crate) fn key(scope: &str, name: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(scope.len() + 1 + name.len());
    key.extend_from_slice(scope.as_bytes());
    key.push(END);
    key.extend_from_slice(name.as_bytes());
    key
}

fn read(key: &[u8], value: Bytes, counts: &BTreeMap<Bytes, i64>) -> Result<Collection> {
    let text = std::str::from_utf8(key).map_err(malformed)?;
    let (scope, name) = text
        .split_once(char::from(END))
        .ok_or_else(|| malformed(steadfast_core::codec::DecodeError))?;
    let (table, what) = decode(value).map_err(malformed)?;
    let count = counts.get(table.0.to_be_bytes().as_slice());
    let count = count.copied().unwrap_or(0);
    Ok(Collection::new(
        table,
        scope,
        name,
        what,
        CollectionStage::Live,
        count,
    ))
}

async fn load_counts(state: &PinnedState) -> Result<BTreeMap<Bytes, i64>> {
    let mut counts = BTreeMap::new();
    for (key, value) in rows(state, tables::COUNTS).await? {
        let count = ByteReader::new(value).varint().map_err(malformed)?;
        counts.insert(key, i64::try_from(count).unwrap_or(i64::MAX));
    }
    Ok(counts)
}

/// All rows of a system table.
async fn rows(state: &PinnedState, table: TableId) -> Result<Vec<(Bytes, Bytes)>> {
    let mut found: Vec<(Bytes, Bytes)> = Vec::new();
    let mut range = Scan::all(limits::SCAN_ROWS);
    loop {
        let page = state.scan(table, range.clone(), 0).await?;
        let Some(last) = page.last() else {
            return Ok(found);
        };
        range.from = Bound::Excluded(last.key.clone());
        found.extend(page.into_iter().map(|row| (row.key, row.value)));
    }
}

fn malformed(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    let what = "the registry of collections".to_owned();
    Error::caused(ErrorKind::Malformed { what }, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c03_a_bare_word_is_a_urn() {
        assert_eq!(normal("x").unwrap(), "urn:x");
        assert_eq!(normal("urn:x").unwrap(), "urn:x");
        assert_eq!(normal("fabric:/a/b").unwrap(), "fabric:/a/b");
        for bad in ["", "a:", "a\u{0}b", "line\n"] {
            assert_eq!(normal(bad).unwrap_err().code().0, "STF-3021", "{bad:?}");
        }
    }
}

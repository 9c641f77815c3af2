//! The uncommitted changes of a transaction.
//!
//! They stay inside the transaction until its commit, so an abort just drops them.
//! The last change of a row wins. The set is bounded by the limit of a public
//! transaction: a change that would pass it is refused and changes nothing.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::id::{Offset, Sequence, StreamId, TableId};
use steadfast_core::limits;

use crate::collection::Collection;
use crate::error::{Error, ErrorKind, Result};
use crate::items::ItemPosition;
use crate::lock::resident::DecodedValue;

/// The changes of one transaction.
#[derive(Default)]
pub(crate) struct WriteSet {
    pub(crate) tables: BTreeMap<TableId, CollectionWrites>,
    pub(crate) created: Vec<Arc<Collection>>,
    pub(crate) removed: Vec<Arc<Collection>>,
    pub(crate) cleared: Option<Arc<Collection>>,
    pub(crate) enqueued: Vec<(Arc<Collection>, Vec<u8>)>,
    pub(crate) taken: Vec<(Arc<Collection>, ItemPosition)>,
    pub(crate) appended: BTreeMap<StreamId, LogAppends>,
    pub(crate) trims: Vec<(StreamId, Sequence, Offset)>,
    bytes: usize,
}

/// Changed rows of one collection.
pub(crate) struct CollectionWrites {
    pub(crate) collection: Arc<Collection>,
    pub(crate) rows: BTreeMap<Bytes, RowWrite>,
}

/// One changed row.
#[derive(Clone)]
pub(crate) struct RowWrite {
    /// `None`: it was removed.
    pub(crate) value: Option<WrittenValue>,
    /// Whether it existed before the transaction.
    pub(crate) existed: bool,
    /// Whether it counts as a row of the collection.
    pub(crate) counts: bool,
}

/// A value in both its forms.
#[derive(Clone)]
pub(crate) struct WrittenValue {
    pub(crate) bytes: Bytes,
    pub(crate) value: DecodedValue,
}

/// Events for one log.
#[derive(Default)]
pub(crate) struct LogAppends {
    pub(crate) count: u32,
    pub(crate) bytes: Vec<u8>,
}

/// What a row, an event or an item costs beside its bytes.
const OVERHEAD: usize = 16;

impl WriteSet {
    /// Whether a commit would write nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.values().all(|changes| changes.rows.is_empty())
            && self.created.is_empty()
            && self.removed.is_empty()
            && self.cleared.is_none()
            && self.enqueued.is_empty()
            && self.taken.is_empty()
            && self.appended.is_empty()
            && self.trims.is_empty()
    }

    /// Its bytes that count towards the limit of a transaction.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The change of a row.
    pub(crate) fn find(&self, table: TableId, key: &[u8]) -> Option<&RowWrite> {
        if self.tables.is_empty() {
            return None;
        }
        self.tables.get(&table)?.rows.get(key)
    }

    /// Changed rows in a range of keys.
    pub(crate) fn range(
        &self,
        table: TableId,
        range: (Bound<Bytes>, Bound<Bytes>),
    ) -> impl Iterator<Item = (&Bytes, &RowWrite)> {
        let changes = self.tables.get(&table);
        changes
            .into_iter()
            .flat_map(move |changes| changes.rows.range(range.clone()))
    }

    /// Puts or removes a row.
    pub(crate) fn change(
        &mut self,
        collection: &Arc<Collection>,
        key: &[u8],
        change: RowWrite,
    ) -> Result<()> {
        let length = |change: &RowWrite| change.value.as_ref().map_or(0, |w| w.bytes.len());
        let before = self.find(collection.table, key);
        let old = before.map_or(0, |before| OVERHEAD + key.len() + length(before));
        let new = OVERHEAD + key.len() + length(&change);
        let existed = before.map(|before| before.existed);
        self.bytes = within(self.bytes - old, new)?;
        let changes = self.tables.entry(collection.table);
        let changes = changes.or_insert_with(|| CollectionWrites {
            collection: Arc::clone(collection),
            rows: BTreeMap::new(),
        });
        let change = RowWrite {
            existed: existed.unwrap_or(change.existed),
            ..change
        };
        match changes.rows.get_mut(key) {
            Some(known) => *known = change,
            None => {
                changes.rows.insert(Bytes::copy_from_slice(key), change);
            }
        }
        Ok(())
    }

    /// Adds an item to a concurrent queue.
    pub(crate) fn enqueue(&mut self, queue: &Arc<Collection>, bytes: Vec<u8>) -> Result<()> {
        self.bytes = within(self.bytes, OVERHEAD + 16 + bytes.len())?;
        self.enqueued.push((Arc::clone(queue), bytes));
        Ok(())
    }

    /// Takes an item from a concurrent queue.
    pub(crate) fn take(&mut self, queue: &Arc<Collection>, place: ItemPosition) -> Result<()> {
        self.bytes = within(self.bytes, OVERHEAD + 16)?;
        self.taken.push((Arc::clone(queue), place));
        Ok(())
    }

    /// Appends an event to a log.
    pub(crate) fn append(&mut self, stream: StreamId, event: &[u8]) -> Result<()> {
        self.bytes = within(self.bytes, OVERHEAD + event.len())?;
        let appends = self.appended.entry(stream).or_default();
        appends.count += 1;
        steadfast_core::codec::put_bytes(&mut appends.bytes, event);
        Ok(())
    }
}

/// The new total, unless it passes the limit.
fn within(before: usize, more: usize) -> Result<usize> {
    let bytes = before + more;
    if bytes <= limits::PUBLIC_TRANSACTION_BYTES {
        return Ok(bytes);
    }
    Err(Error::new(ErrorKind::TooLarge {
        what: "the transaction with this change",
        bytes,
        limit: limits::PUBLIC_TRANSACTION_BYTES,
    }))
}

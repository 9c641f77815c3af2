//! The concurrent queue: its operations never wait for locks.
//!
//! Order is best effort. An item is taken by one transaction; if the transaction aborts,
//! the item returns to the head at once. Items that a transaction enqueues can be taken
//! only after its commit, even by itself. There is no peek, no enumeration and no
//! volatile form.

use std::marker::PhantomData;
use std::ops::Bound;
use std::sync::Arc;

use steadfast_core::limits;
use steadfast_storage::engine::Scan;

use crate::collection::{CODEC, Collection, Description, Shape};
use crate::error::{Error, Result};
use crate::handle::{CollectionBinding, Handle, sealed};
use crate::items::ItemPosition;
use crate::lock::mode::LockStrength;
use crate::options::{Timeout, WaitDeadline};
use crate::rows;
use crate::schema::argument::IntoRecord;
use crate::schema::envelope::encode_value;
use crate::schema::record::Record;
use crate::stored_value::StoredValue;
use crate::transaction::Tx;

/// A reliable concurrent queue. Clones are the same queue.
pub struct ConcurrentQueue<V> {
    part: CollectionBinding,
    value: PhantomData<fn() -> V>,
}

impl<V: Record> ConcurrentQueue<V> {
    /// Adds an item; it can be taken after the commit.
    pub async fn enqueue(&self, tx: &mut Tx, value: impl IntoRecord<V>) -> Result<()> {
        self.enter(tx).await?;
        let collection = &self.part.collection;
        let bytes = encode_value(&value.into_record(), tx.inner.write_version.get());
        let bytes = bytes.map_err(|error| Error::schema(error, &collection.name))?;
        tx.writes.enqueue(collection, bytes)
    }

    /// Takes an item that no other transaction has taken; `None` at once if there is none.
    pub async fn try_dequeue(&self, tx: &mut Tx) -> Result<Option<StoredValue<V>>> {
        self.enter(tx).await?;
        self.load().await?;
        let collection = &self.part.collection;
        loop {
            let Some(place) = collection.items.take() else {
                return Ok(None);
            };
            let mut taken = DequeueGuard {
                queue: collection,
                place: Some(place),
            };
            let Some(bytes) = tx.load(collection.table, &place.key()).await? else {
                // The queue was cleared in between.
                taken.place = None;
                continue;
            };
            let value = rows::decode(collection, &bytes)?;
            tx.writes.take(collection, place)?;
            taken.place = None;
            return Ok(Some(StoredValue(Arc::new(value))));
        }
    }

    /// How many items can be taken now.
    pub async fn len(&self) -> Result<u64> {
        self.part.check_live()?;
        self.load().await?;
        Ok(self.part.collection.items.len())
    }

    /// Whether no item can be taken now.
    pub async fn is_empty(&self) -> Result<bool> {
        Ok(self.len().await? == 0)
    }

    async fn enter(&self, tx: &mut Tx) -> Result<()> {
        self.part.check(tx)?;
        tx.check_write()?;
        let mut patience = WaitDeadline::new(Timeout::default());
        let collection = &self.part.collection;
        tx.enter(collection, LockStrength::Shared, &mut patience)
            .await
    }

    /// Loads the positions of the stored items, once.
    async fn load(&self) -> Result<()> {
        let collection = &self.part.collection;
        if collection.items.is_loaded() {
            return Ok(());
        }
        let state = self.part.inner.source.pin(0).await?;
        let mut places = Vec::new();
        let mut range = Scan::all(limits::SCAN_ROWS);
        loop {
            let page = state.scan(collection.table, range.clone(), 0).await?;
            let Some(last) = page.last() else {
                break;
            };
            range.from = Bound::Excluded(last.key.clone());
            places.extend(
                page.iter()
                    .filter_map(|row| ItemPosition::from_key(&row.key)),
            );
        }
        collection.items.load(places);
        Ok(())
    }
}

/// An item on its way from the queue to the transaction; dropping the guard returns it.
struct DequeueGuard<'a> {
    queue: &'a Collection,
    place: Option<ItemPosition>,
}

impl Drop for DequeueGuard<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.queue.items.put(place);
        }
    }
}

impl<V> Clone for ConcurrentQueue<V> {
    fn clone(&self) -> Self {
        Self {
            part: self.part.clone(),
            value: PhantomData,
        }
    }
}

impl<V: Record> sealed::Sealed for ConcurrentQueue<V> {}

impl<V: Record> Handle for ConcurrentQueue<V> {
    fn description() -> Description {
        Description {
            shape: Shape::ConcurrentQueue,
            key_type: String::new(),
            value_type: V::type_name(),
            codec: CODEC,
        }
    }

    fn attach(part: CollectionBinding) -> Self {
        Self {
            part,
            value: PhantomData,
        }
    }
}

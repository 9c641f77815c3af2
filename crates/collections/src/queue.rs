//! The queue: strictly first in, first out, in commit order.
//!
//! Rows are the head, the tail, and one per item, numbered. One transaction at a
//! time enqueues (it locks the tail) and one dequeues (it locks the head). A
//! transaction that finds the queue empty locks the row of the next item: no other can
//! enqueue until it ends, so the queue stays empty for it.

use std::marker::PhantomData;
use std::ops::Bound;

use bytes::Bytes;

use crate::collection::{CODEC, Description, Shape};
use crate::dictionary::clear;
use crate::error::Result;
use crate::handle::{CollectionBinding, Handle, sealed};
use crate::lock::mode::LockStrength;
use crate::options::{OperationOptions, WaitDeadline};
use crate::rows;
use crate::scan::{PageContent, ScanPosition, ScannedRow, beginning_with};
use crate::schema::argument::IntoRecord;
use crate::schema::record::Record;
use crate::stored_value::StoredValue;
use crate::transaction::Tx;

const HEAD: &[u8] = &[0];
const TAIL: &[u8] = &[1];
pub(crate) const ITEM: u8 = 2;

/// A reliable queue. Clones are the same queue.
pub struct Queue<V> {
    part: CollectionBinding,
    options: OperationOptions,
    value: PhantomData<fn() -> V>,
}

impl<V: Record> Queue<V> {
    /// The same queue with another time-out or lock mode.
    #[must_use]
    pub fn with(&self, options: OperationOptions) -> Self {
        Self {
            options,
            ..self.clone()
        }
    }

    /// Adds an item at the end.
    pub async fn enqueue(&self, tx: &mut Tx, value: impl IntoRecord<V>) -> Result<()> {
        tx.check_write()?;
        let mut patience = self.enter(tx).await?;
        let tail = self.end(tx, TAIL, &mut patience).await?;
        let key = item(tail);
        let collection = &self.part.collection;
        // Waits for a transaction that found the queue empty here.
        tx.lock_row(collection, &key, LockStrength::Exclusive, &mut patience)
            .await?;
        rows::write(tx, collection, &key, value.into_record(), false, true)?;
        rows::write(tx, collection, TAIL, tail + 1, true, false)?;
        Ok(())
    }

    /// Takes the first item; `None` if there is none.
    pub async fn try_dequeue(&self, tx: &mut Tx) -> Result<Option<StoredValue<V>>> {
        tx.check_write()?;
        let mut patience = self.enter(tx).await?;
        let head = self.end(tx, HEAD, &mut patience).await?;
        let key = item(head);
        let collection = &self.part.collection;
        let read = rows::read(tx, collection, &key, LockStrength::Exclusive, &mut patience);
        let Some(value) = read.await? else {
            return Ok(None);
        };
        rows::remove(tx, collection, &key, true)?;
        rows::write(tx, collection, HEAD, head + 1, true, false)?;
        Ok(Some(value))
    }

    /// The first item, which stays; `None` if there is none.
    pub async fn try_peek(&self, tx: &mut Tx) -> Result<Option<StoredValue<V>>> {
        let mut patience = self.enter(tx).await?;
        let mode = self.options.lock.mode();
        let collection = &self.part.collection;
        let head = rows::read::<u64>(tx, collection, HEAD, mode, &mut patience).await?;
        let key = item(head.map_or(0, |head| *head));
        rows::read(tx, collection, &key, mode, &mut patience).await
    }

    /// The exact number of items that the transaction sees.
    pub async fn count(&self, tx: &mut Tx) -> Result<u64> {
        self.part.check(tx)?;
        let collection = &self.part.collection;
        tx.check_visible(collection)?;
        let (from, to) = beginning_with(&[ITEM]);
        let mut position = ScanPosition::new(from, to, usize::MAX);
        position.count(tx, collection.table).await
    }

    /// All items in order, as the transaction's snapshot has them and with its own
    /// changes.
    pub async fn entries(&self, tx: &mut Tx) -> Result<Vec<StoredValue<V>>> {
        self.part.check(tx)?;
        let collection = &self.part.collection;
        tx.check_visible(collection)?;
        let (from, to): (Bound<Bytes>, Bound<Bytes>) = beginning_with(&[ITEM]);
        let mut position = ScanPosition::new(from, to, usize::MAX);
        let mut items = Vec::new();
        while let Some(page) = position
            .next(tx, collection.table, PageContent::Rows)
            .await?
        {
            for found in page.into_values() {
                match found {
                    ScannedRow::Stored(bytes) => {
                        items.push(StoredValue(rows::decode::<V>(collection, &bytes)?.into()));
                    }
                    ScannedRow::Own(change) => items.extend(rows::own_value(collection, &change)?),
                    ScannedRow::Key => {}
                }
            }
        }
        Ok(items)
    }

    /// The first items after a number, with their numbers, as the transaction's snapshot has
    /// them and with its own changes: `limit` at most, and no more once they have `bytes`;
    /// and whether there are more. They stay in the queue. Takes no lock.
    pub async fn first(
        &self,
        tx: &mut Tx,
        after: Option<u64>,
        limit: usize,
        bytes: usize,
    ) -> Result<(Vec<(u64, StoredValue<V>)>, bool)> {
        self.part.check(tx)?;
        let collection = &self.part.collection;
        tx.check_visible(collection)?;
        let (first, to): (Bound<Bytes>, Bound<Bytes>) = beginning_with(&[ITEM]);
        let from = after.map_or(first, |after| {
            Bound::Excluded(Bytes::copy_from_slice(&item(after)))
        });
        let mut position = ScanPosition::new(from, to, limit);
        let (mut items, mut weight) = (Vec::new(), 0);
        while let Some(page) = position
            .next(tx, collection.table, PageContent::Rows)
            .await?
        {
            for (key, found) in page {
                if found.is_deleted() {
                    continue;
                }
                if items.len() >= limit || weight >= bytes {
                    return Ok((items, true));
                }
                let value = match found {
                    ScannedRow::Stored(bytes) => {
                        weight += bytes.len();
                        Some(StoredValue(rows::decode::<V>(collection, &bytes)?.into()))
                    }
                    ScannedRow::Own(change) => rows::own_value(collection, &change)?,
                    ScannedRow::Key => None,
                };
                items.extend(number(&key).zip(value));
            }
        }
        Ok((items, false))
    }

    /// About how many items there are. Reads no rows and takes no lock.
    pub fn approx_count(&self) -> u64 {
        self.part.collection.count().unsigned_abs()
    }

    /// Removes all items, immediately and permanently, outside any transaction. Waits for
    /// every transaction that has used the queue.
    pub async fn clear(&self) -> Result<()> {
        clear(&self.part, self.options).await
    }

    async fn enter(&self, tx: &mut Tx) -> Result<WaitDeadline> {
        self.part.check(tx)?;
        let mut patience = WaitDeadline::new(self.options.timeout);
        let collection = &self.part.collection;
        tx.enter(collection, LockStrength::Shared, &mut patience)
            .await?;
        Ok(patience)
    }

    /// Locks head or tail for writing and reads it: first in the mode that waits
    /// for other writers without blocking readers, then exclusively.
    async fn end(&self, tx: &mut Tx, key: &[u8], patience: &mut WaitDeadline) -> Result<u64> {
        let collection = &self.part.collection;
        tx.lock_row(collection, key, LockStrength::Update, patience)
            .await?;
        let end = rows::read::<u64>(tx, collection, key, LockStrength::Exclusive, patience).await?;
        Ok(end.map_or(0, |end| *end))
    }
}

/// The role of a row, as text.
pub(crate) fn show(key: &[u8]) -> Option<String> {
    match key {
        HEAD => Some("the head".into()),
        TAIL => Some("the tail".into()),
        _ => number(key).map(|number| format!("item {number}")),
    }
}

/// The number of an item, from its row key.
fn number(key: &[u8]) -> Option<u64> {
    match key {
        [ITEM, number @ ..] => Some(u64::from_be_bytes(number.try_into().ok()?)),
        _ => None,
    }
}

/// The row key of an item.
pub(crate) fn item(number: u64) -> [u8; 9] {
    let mut key = [ITEM; 9];
    key[1..].copy_from_slice(&number.to_be_bytes());
    key
}

impl<V> Clone for Queue<V> {
    fn clone(&self) -> Self {
        Self {
            part: self.part.clone(),
            options: self.options,
            value: PhantomData,
        }
    }
}

impl<V: Record> sealed::Sealed for Queue<V> {}

impl<V: Record> Handle for Queue<V> {
    fn description() -> Description {
        Description {
            shape: Shape::Queue,
            key_type: String::new(),
            value_type: V::type_name(),
            codec: CODEC,
        }
    }

    fn attach(part: CollectionBinding) -> Self {
        Self {
            part,
            options: OperationOptions::default(),
            value: PhantomData,
        }
    }
}

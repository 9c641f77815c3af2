//! The dictionary: keys and values, ordered by key.
//!
//! An operation on a key locks exactly that key, and is repeatable until the transaction
//! ends; an exclusive lock is kept even after an operation that failed or returned false.
//! Counting and enumerating read a snapshot and take no locks.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::collection::{CODEC, Description, Shape};
use crate::error::{Error, ErrorKind, Result};
use crate::handle::{CollectionBinding, Handle, sealed};
use crate::lock::mode::LockStrength;
use crate::options::{OperationOptions, WaitDeadline};
use crate::rows;
use crate::schema::argument::{AsKey, IntoRecord};
use crate::schema::key::Key;
use crate::schema::ordered::KeyWriter;
use crate::schema::record::Record;
use crate::stored_keys;
use crate::stored_value::StoredValue;
use crate::transaction::Tx;

/// A reliable dictionary. Clones are the same dictionary.
pub struct Dictionary<K, V> {
    pub(crate) part: CollectionBinding,
    types: PhantomData<fn() -> (K, V)>,
}

/// A dictionary with options for its operations.
pub struct DictionaryView<'a, K, V> {
    dictionary: &'a Dictionary<K, V>,
    options: OperationOptions,
}

impl<K: Key, V: Record> Dictionary<K, V> {
    /// The same dictionary with another time-out or lock mode.
    pub fn with(&self, options: OperationOptions) -> DictionaryView<'_, K, V> {
        DictionaryView {
            dictionary: self,
            options,
        }
    }

    /// Adds a key; fails if it exists.
    pub async fn add(
        &self,
        tx: &mut Tx,
        key: impl AsKey<K>,
        value: impl IntoRecord<V>,
    ) -> Result<()> {
        self.with(OperationOptions::default())
            .add(tx, key, value)
            .await
    }

    /// Adds a key unless it exists; returns whether it was added.
    pub async fn try_add(
        &self,
        tx: &mut Tx,
        key: impl AsKey<K>,
        value: impl IntoRecord<V>,
    ) -> Result<bool> {
        self.with(OperationOptions::default())
            .try_add(tx, key, value)
            .await
    }

    /// Sets the value of a key, new or existing.
    pub async fn set(
        &self,
        tx: &mut Tx,
        key: impl AsKey<K>,
        value: impl IntoRecord<V>,
    ) -> Result<()> {
        self.with(OperationOptions::default())
            .set(tx, key, value)
            .await
    }

    /// Locks a key, new or existing, for a later write. Transactions that lock their keys
    /// in the same order never deadlock.
    pub async fn lock(&self, tx: &mut Tx, key: impl AsKey<K>) -> Result<()> {
        self.with(OperationOptions::default()).lock(tx, key).await
    }

    /// The value of a key.
    pub async fn get(&self, tx: &mut Tx, key: impl AsKey<K>) -> Result<Option<StoredValue<V>>> {
        self.with(OperationOptions::default()).get(tx, key).await
    }

    /// Whether a key exists.
    pub async fn contains(&self, tx: &mut Tx, key: impl AsKey<K>) -> Result<bool> {
        self.with(OperationOptions::default())
            .contains(tx, key)
            .await
    }

    /// The value of a key, which is added if it does not exist.
    pub async fn get_or_add(
        &self,
        tx: &mut Tx,
        key: impl AsKey<K>,
        value: impl FnOnce() -> V,
    ) -> Result<StoredValue<V>> {
        self.with(OperationOptions::default())
            .get_or_add(tx, key, value)
            .await
    }

    /// Adds a key or changes its value; returns the new value.
    pub async fn add_or_update(
        &self,
        tx: &mut Tx,
        key: impl AsKey<K>,
        add: impl FnOnce() -> V,
        update: impl FnOnce(&V) -> V,
    ) -> Result<StoredValue<V>> {
        let view = self.with(OperationOptions::default());
        view.add_or_update(tx, key, add, update).await
    }

    /// Changes the value of a key; returns false if it does not exist.
    pub async fn update(
        &self,
        tx: &mut Tx,
        key: impl AsKey<K>,
        update: impl FnOnce(&V) -> V,
    ) -> Result<bool> {
        self.with(OperationOptions::default())
            .update(tx, key, update)
            .await
    }

    /// Replaces a value if it still is what the caller expects.
    pub async fn try_update(
        &self,
        tx: &mut Tx,
        key: impl AsKey<K>,
        value: impl IntoRecord<V>,
        expected: &V,
    ) -> Result<bool>
    where
        V: PartialEq,
    {
        let view = self.with(OperationOptions::default());
        view.try_update(tx, key, value, expected).await
    }

    /// Removes a key; returns the value that it had.
    pub async fn try_remove(
        &self,
        tx: &mut Tx,
        key: impl AsKey<K>,
    ) -> Result<Option<StoredValue<V>>> {
        self.with(OperationOptions::default())
            .try_remove(tx, key)
            .await
    }

    /// Removes all keys, immediately and permanently, outside any transaction. Waits for
    /// every transaction that has used the dictionary.
    pub async fn clear(&self) -> Result<()> {
        self.with(OperationOptions::default()).clear().await
    }

    /// About how many keys there are. Reads no rows and takes no lock.
    pub fn approx_count(&self) -> u64 {
        self.part.collection.count().unsigned_abs()
    }

    /// The name, as it is stored.
    pub fn name(&self) -> &str {
        &self.part.collection.name
    }
}

impl<K: Key, V: Record> DictionaryView<'_, K, V> {
    /// See [`Dictionary::add`].
    pub async fn add(
        &self,
        tx: &mut Tx,
        key: impl AsKey<K>,
        value: impl IntoRecord<V>,
    ) -> Result<()> {
        if self.try_add(tx, key, value).await? {
            Ok(())
        } else {
            Err(Error::new(ErrorKind::KeyExists {
                collection: self.dictionary.name().to_owned(),
            }))
        }
    }

    /// See [`Dictionary::try_add`].
    pub async fn try_add(
        &self,
        tx: &mut Tx,
        key: impl AsKey<K>,
        value: impl IntoRecord<V>,
    ) -> Result<bool> {
        let mut row = self.write(tx, &key).await?;
        if row.exists(tx, LockStrength::Exclusive).await? {
            return row.done(tx, false);
        }
        row.put(tx, value.into_record(), false)?;
        row.done(tx, true)
    }

    /// See [`Dictionary::set`].
    pub async fn set(
        &self,
        tx: &mut Tx,
        key: impl AsKey<K>,
        value: impl IntoRecord<V>,
    ) -> Result<()> {
        let mut row = self.write(tx, &key).await?;
        let existed = row.exists(tx, LockStrength::Exclusive).await?;
        row.put(tx, value.into_record(), existed)?;
        row.done(tx, ())
    }

    /// See [`Dictionary::lock`].
    pub async fn lock(&self, tx: &mut Tx, key: impl AsKey<K>) -> Result<()> {
        let mut row = self.write(tx, &key).await?;
        row.exists(tx, LockStrength::Exclusive).await?;
        row.done(tx, ())
    }

    /// See [`Dictionary::get`].
    pub async fn get(&self, tx: &mut Tx, key: impl AsKey<K>) -> Result<Option<StoredValue<V>>> {
        let mut row = self.row(tx, &key).await?;
        let value = row.read(tx, self.options.lock.mode()).await?;
        row.done(tx, value)
    }

    /// See [`Dictionary::contains`].
    pub async fn contains(&self, tx: &mut Tx, key: impl AsKey<K>) -> Result<bool> {
        let mut row = self.row(tx, &key).await?;
        let is_there = row.exists(tx, self.options.lock.mode()).await?;
        row.done(tx, is_there)
    }

    /// See [`Dictionary::get_or_add`].
    pub async fn get_or_add(
        &self,
        tx: &mut Tx,
        key: impl AsKey<K>,
        value: impl FnOnce() -> V,
    ) -> Result<StoredValue<V>> {
        let mut row = self.write(tx, &key).await?;
        if let Some(found) = row.read(tx, LockStrength::Update).await? {
            return row.done(tx, found);
        }
        row.exists(tx, LockStrength::Exclusive).await?;
        let value = tx.guarded(value);
        let stored = row.put(tx, value, false)?;
        row.done(tx, stored)
    }

    /// See [`Dictionary::add_or_update`].
    pub async fn add_or_update(
        &self,
        tx: &mut Tx,
        key: impl AsKey<K>,
        add: impl FnOnce() -> V,
        update: impl FnOnce(&V) -> V,
    ) -> Result<StoredValue<V>> {
        let mut row = self.write(tx, &key).await?;
        let old = row.read(tx, LockStrength::Exclusive).await?;
        let value = match &old {
            Some(old) => changed(tx, old, update),
            None => tx.guarded(add),
        };
        let stored = row.put(tx, value, old.is_some())?;
        row.done(tx, stored)
    }

    /// See [`Dictionary::update`].
    pub async fn update(
        &self,
        tx: &mut Tx,
        key: impl AsKey<K>,
        update: impl FnOnce(&V) -> V,
    ) -> Result<bool> {
        let mut row = self.write(tx, &key).await?;
        let Some(old) = row.read(tx, LockStrength::Exclusive).await? else {
            return row.done(tx, false);
        };
        let value = changed(tx, &old, update);
        row.put(tx, value, true)?;
        row.done(tx, true)
    }

    /// See [`Dictionary::try_update`].
    pub async fn try_update(
        &self,
        tx: &mut Tx,
        key: impl AsKey<K>,
        value: impl IntoRecord<V>,
        expected: &V,
    ) -> Result<bool>
    where
        V: PartialEq,
    {
        let mut row = self.write(tx, &key).await?;
        let old = row.read::<V>(tx, LockStrength::Exclusive).await?;
        let Some(old) = old.filter(|old| **old == *expected) else {
            return row.done(tx, false);
        };
        let mut value = value.into_record();
        value.inherit(&old);
        row.put(tx, value, true)?;
        row.done(tx, true)
    }

    /// See [`Dictionary::try_remove`].
    pub async fn try_remove(
        &self,
        tx: &mut Tx,
        key: impl AsKey<K>,
    ) -> Result<Option<StoredValue<V>>> {
        let mut row = self.write(tx, &key).await?;
        let old = row.read(tx, LockStrength::Exclusive).await?;
        if old.is_some() {
            rows::remove(tx, &row.part.collection, &row.key, true)?;
        }
        row.done(tx, old)
    }

    /// See [`Dictionary::clear`].
    pub async fn clear(&self) -> Result<()> {
        clear(&self.dictionary.part, self.options).await
    }

    /// The row of a key, for a write.
    async fn write(&self, tx: &mut Tx, key: &impl AsKey<K>) -> Result<RowAccess<'_>> {
        tx.check_write()?;
        self.row(tx, key).await
    }

    /// The row of a key, not locked yet; enters the collection.
    async fn row(&self, tx: &mut Tx, key: &impl AsKey<K>) -> Result<RowAccess<'_>> {
        let part = &self.dictionary.part;
        part.check(tx)?;
        let mut patience = WaitDeadline::new(self.options.timeout);
        tx.enter(&part.collection, LockStrength::Shared, &mut patience)
            .await?;
        let mut to = KeyWriter::reusing(std::mem::take(&mut tx.key));
        key.write_key(&mut to);
        let key = to.finish();
        let key = key.map_err(|error| Error::schema(error, &part.collection.name))?;
        Ok(RowAccess {
            part,
            key,
            patience,
        })
    }
}

/// One row in the course of one operation.
struct RowAccess<'a> {
    part: &'a CollectionBinding,
    key: Vec<u8>,
    patience: WaitDeadline,
}

impl RowAccess<'_> {
    async fn read<V: Record>(
        &mut self,
        tx: &mut Tx,
        mode: LockStrength,
    ) -> Result<Option<StoredValue<V>>> {
        let collection = &self.part.collection;
        rows::read(tx, collection, &self.key, mode, &mut self.patience).await
    }

    async fn exists(&mut self, tx: &mut Tx, mode: LockStrength) -> Result<bool> {
        let collection = &self.part.collection;
        rows::exists(tx, collection, &self.key, mode, &mut self.patience).await
    }

    fn put<V: Record>(&self, tx: &mut Tx, value: V, existed: bool) -> Result<StoredValue<V>> {
        let collection = &self.part.collection;
        rows::write(tx, collection, &self.key, value, existed, true)
    }

    /// Returns the buffer for the next operation.
    fn done<T>(self, tx: &mut Tx, answer: T) -> Result<T> {
        tx.key = self.key;
        Ok(answer)
    }
}

/// The value that a closure derives from the old one, with the old one's unknown fields.
fn changed<V: Record>(tx: &mut Tx, old: &StoredValue<V>, update: impl FnOnce(&V) -> V) -> V {
    let mut value = tx.guarded(|| update(old));
    value.inherit(old);
    value
}

/// Empties a collection in a transaction of its own.
pub(crate) async fn clear(part: &CollectionBinding, options: OperationOptions) -> Result<()> {
    let mut tx = Tx::begin(&part.inner);
    tx.check_write()?;
    let mut patience = WaitDeadline::new(options.timeout);
    tx.enter(&part.collection, LockStrength::Exclusive, &mut patience)
        .await?;
    tx.writes.cleared = Some(Arc::clone(&part.collection));
    tx.commit().await.map(drop)
}

impl<K, V> Clone for Dictionary<K, V> {
    fn clone(&self) -> Self {
        Self {
            part: self.part.clone(),
            types: PhantomData,
        }
    }
}

impl<K: Key, V: Record> sealed::Sealed for Dictionary<K, V> {}

impl<K: Key, V: Record> Handle for Dictionary<K, V> {
    fn description() -> Description {
        Description {
            shape: Shape::Dictionary,
            key_type: K::type_name(),
            value_type: V::type_name(),
            codec: CODEC,
        }
    }

    fn attach(part: CollectionBinding) -> Self {
        Self {
            part,
            types: PhantomData,
        }
    }

    async fn check_stored(part: &CollectionBinding) -> Result<()> {
        stored_keys::check::<K>(part).await
    }
}

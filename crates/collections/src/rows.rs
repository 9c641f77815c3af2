//! Typed rows under locks.
//!
//! A read looks at the transaction's own changes, then at the resident row, then
//! at the ledger, and decodes a value at most once while it stays resident.

use std::sync::Arc;

use bytes::Bytes;

use crate::collection::Collection;
use crate::error::{Error, ErrorKind, Result};
use crate::lock::mode::LockStrength;
use crate::lock::resident::{CachedValue, DecodedValue};
use crate::options::WaitDeadline;
use crate::schema::envelope::{decode_value, store_value};
use crate::schema::record::Record;
use crate::stored_value::StoredValue;
use crate::transaction::Tx;
use crate::writeset::{RowWrite, WrittenValue};

/// Locks a row and reads it, own changes included.
pub(crate) async fn read<V: Record>(
    tx: &mut Tx,
    collection: &Arc<Collection>,
    key: &[u8],
    mode: LockStrength,
    patience: &mut WaitDeadline,
) -> Result<Option<StoredValue<V>>> {
    if tx.reads_snapshots() {
        return read_snapshot(tx, collection, key, mode).await;
    }
    let cached = tx.lock_row(collection, key, mode, patience).await?;
    if let Some(change) = tx.writes.find(collection.table, key) {
        return own_value(collection, change);
    }
    match cached {
        CachedValue::Absent => return Ok(None),
        CachedValue::Present(value) => {
            if let Ok(value) = Arc::downcast(value) {
                return Ok(Some(StoredValue(value)));
            }
        }
        CachedValue::Unknown => {}
    }
    let Some(bytes) = tx.load(collection.table, key).await? else {
        tx.remember(collection, key, CachedValue::Absent, 0);
        return Ok(None);
    };
    let value = Arc::new(decode::<V>(collection, &bytes)?);
    let cached = CachedValue::Present(Arc::clone(&value) as DecodedValue);
    tx.remember(collection, key, cached, bytes.len());
    Ok(Some(StoredValue(value)))
}

/// Locks a row and returns whether it exists, own changes included.
pub(crate) async fn exists(
    tx: &mut Tx,
    collection: &Arc<Collection>,
    key: &[u8],
    mode: LockStrength,
    patience: &mut WaitDeadline,
) -> Result<bool> {
    if tx.reads_snapshots() {
        refuse_locks(collection, mode)?;
        return Ok(tx.snapshot_get(collection.table, key).await?.is_some());
    }
    let cached = tx.lock_row(collection, key, mode, patience).await?;
    if let Some(change) = tx.writes.find(collection.table, key) {
        return Ok(change.value.is_some());
    }
    match cached {
        CachedValue::Absent => Ok(false),
        CachedValue::Present(_) => Ok(true),
        CachedValue::Unknown => {
            let is_there = tx.load(collection.table, key).await?.is_some();
            if !is_there {
                tx.remember(collection, key, CachedValue::Absent, 0);
            }
            Ok(is_there)
        }
    }
}

/// Writes a row that is locked; returns the value as it is stored.
pub(crate) fn write<V: Record>(
    tx: &mut Tx,
    collection: &Arc<Collection>,
    key: &[u8],
    value: V,
    existed: bool,
    counts: bool,
) -> Result<StoredValue<V>> {
    let version = tx.inner.write_version.get();
    // The cached value equals the one that would be read from the bytes.
    let stored = store_value(value, version);
    let (bytes, value) = stored.map_err(|error| Error::schema(error, &collection.name))?;
    let value = Arc::new(value);
    let written = WrittenValue {
        bytes: bytes.into(),
        value: Arc::clone(&value) as DecodedValue,
    };
    let change = RowWrite {
        value: Some(written),
        existed,
        counts,
    };
    tx.writes.change(collection, key, change)?;
    Ok(StoredValue(value))
}

/// Removes an existing row that is locked.
pub(crate) fn remove(
    tx: &mut Tx,
    collection: &Arc<Collection>,
    key: &[u8],
    counts: bool,
) -> Result<()> {
    let change = RowWrite {
        value: None,
        existed: true,
        counts,
    };
    tx.writes.change(collection, key, change)
}

/// Decodes a stored value.
pub(crate) fn decode<V: Record>(collection: &Collection, bytes: &Bytes) -> Result<V> {
    decode_value(bytes).map_err(|error| Error::schema(error, &collection.name))
}

/// The value that this transaction itself has written.
pub(crate) fn own_value<V: Record>(
    collection: &Collection,
    change: &RowWrite,
) -> Result<Option<StoredValue<V>>> {
    let Some(written) = &change.value else {
        return Ok(None);
    };
    match Arc::downcast(Arc::clone(&written.value)) {
        Ok(value) => Ok(Some(StoredValue(value))),
        Err(_) => Ok(Some(StoredValue(Arc::new(decode(
            collection,
            &written.bytes,
        )?)))),
    }
}

/// A value of a notice, with its type.
pub(crate) fn typed<V: Record>(
    collection: &Collection,
    value: DecodedValue,
) -> Result<StoredValue<V>> {
    let wrong = |_| {
        Error::new(ErrorKind::TypeMismatch {
            collection: collection.name.clone(),
            found: collection.what.value_type.clone(),
            asked: V::type_name(),
        })
    };
    Arc::downcast(value).map(StoredValue).map_err(wrong)
}

/// Reads on a secondary: without locks, from the pinned state.
async fn read_snapshot<V: Record>(
    tx: &mut Tx,
    collection: &Arc<Collection>,
    key: &[u8],
    mode: LockStrength,
) -> Result<Option<StoredValue<V>>> {
    refuse_locks(collection, mode)?;
    let bytes = tx.snapshot_get(collection.table, key).await?;
    let value = bytes.map(|bytes| decode(collection, &bytes)).transpose()?;
    Ok(value.map(|value| StoredValue(Arc::new(value))))
}

fn refuse_locks(collection: &Collection, mode: LockStrength) -> Result<()> {
    if mode == LockStrength::Shared {
        return Ok(());
    }
    let what = format!("{} with an update lock", collection.name);
    Err(Error::new(ErrorKind::NotReadable { what }))
}

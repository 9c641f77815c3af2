//! Compares stored keys with the key type.
//!
//! All keys are compared, once per process and collection. The first page is compared
//! before the collection is opened: code that encodes keys differently is rejected there.
//! The rest is compared in the background, a page at a time, because a collection of many
//! million keys must not keep its service waiting. If a key differs there, the collection
//! is disabled: every later operation fails with `KeyContractChanged`.

use std::ops::Bound;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use steadfast_core::limits;
use steadfast_core::task::name_task;
use steadfast_storage::engine::Scan;

use crate::collection::{Collection, CollectionStage};
use crate::error::{Error, ErrorKind, Result};
use crate::handle::CollectionBinding;
use crate::replica_inner::ReplicaInner;
use crate::schema::contract::KeyCheck;
use crate::schema::key::Key;

/// Compares the first keys now and the others soon.
pub(crate) async fn check<K: Key>(part: &CollectionBinding) -> Result<()> {
    let collection = &part.collection;
    collection.check_keys()?;
    if collection.keys_checked().load(Ordering::Acquire) {
        return Ok(());
    }
    let mut check = KeyCheck::<K>::new();
    let last = page(&part.inner, collection, &mut check, Bound::Unbounded).await?;
    // Of two concurrent opens, one compares the rest.
    let is_first = !collection.keys_checked().swap(true, Ordering::AcqRel);
    if let Some(last) = last.filter(|_| is_first) {
        let home = Arc::downgrade(&part.inner);
        tokio::spawn(name_task(check_rest(
            home,
            Arc::clone(collection),
            check,
            last,
        )));
    }
    Ok(())
}

/// Compares one page of keys; returns its last key if more may follow.
async fn page<K: Key>(
    home: &ReplicaInner,
    collection: &Collection,
    check: &mut KeyCheck<K>,
    from: Bound<Bytes>,
) -> Result<Option<Bytes>> {
    let state = home.source.pin(0).await?;
    let range = Scan {
        from,
        to: Bound::Unbounded,
        limit: limits::SCAN_ROWS,
    };
    let keys = state.scan_keys(collection.table, range, 0).await?;
    for key in &keys {
        let checked = check.next(key);
        checked.map_err(|error| Error::schema(error, &collection.name))?;
    }
    let is_full = keys.len() >= limits::SCAN_ROWS;
    Ok(keys.last().cloned().filter(|_| is_full))
}

async fn check_rest<K: Key>(
    home: Weak<ReplicaInner>,
    collection: Arc<Collection>,
    mut check: KeyCheck<K>,
    mut after: Bytes,
) {
    // Closing the replica does not wait for this task.
    while let Some(home) = home.upgrade().filter(|home| home.check_open().is_ok()) {
        if collection.life() == CollectionStage::Removed {
            return;
        }
        match page(&home, &collection, &mut check, Bound::Excluded(after)).await {
            Ok(Some(last)) => after = last,
            Ok(None) => return,
            Err(error) => return end(&collection, error),
        }
    }
}

fn end(collection: &Collection, error: Error) {
    let name = collection.name.as_str();
    if matches!(error.kind(), ErrorKind::Schema { .. }) {
        tracing::error!(
            event = "collections.keys_changed",
            collection = name,
            %error,
            "stored keys are not those of the key type",
        );
        return collection.disable(error);
    }
    tracing::warn!(
        event = "collections.keys_unchecked",
        collection = name,
        %error,
        "stored keys could not be read; the next open checks them again",
    );
    collection.keys_checked().store(false, Ordering::Release);
}

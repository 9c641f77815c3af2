//! The common interface of all collection handles.

use std::sync::Arc;

use crate::collection::{Collection, CollectionStage, Description};
use crate::error::{Error, ErrorKind, Result};
use crate::replica_inner::ReplicaInner;
use crate::transaction::Tx;

/// A typed handle of a collection.
pub trait Handle: Sized + sealed::Sealed {
    /// The kind and types that a collection must have for this handle.
    #[doc(hidden)]
    fn description() -> Description;

    #[doc(hidden)]
    fn attach(part: CollectionBinding) -> Self;

    /// Compares stored keys with the types of this handle.
    #[doc(hidden)]
    fn check_stored(_part: &CollectionBinding) -> impl Future<Output = Result<()>> + Send {
        std::future::ready(Ok(()))
    }
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// A collection and the replica that it belongs to.
#[doc(hidden)]
#[derive(Clone)]
pub struct CollectionBinding {
    pub(crate) inner: Arc<ReplicaInner>,
    pub(crate) collection: Arc<Collection>,
}

impl CollectionBinding {
    /// Refuses a transaction of another partition.
    pub(crate) fn check(&self, tx: &Tx) -> Result<()> {
        if Arc::ptr_eq(&self.inner, &tx.inner) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::ForeignTransaction {
            transaction: tx.id(),
            collection: self.collection.name.clone(),
        }))
    }

    /// Refuses a read outside of transactions if the collection is not committed.
    pub(crate) fn check_live(&self) -> Result<()> {
        self.inner.check_open()?;
        self.inner.check_owned()?;
        let collection = self.collection.name.clone();
        match self.collection.life() {
            CollectionStage::Live => self.collection.check_keys(),
            CollectionStage::Creating(_) => Err(Error::new(ErrorKind::NotVisible { collection })),
            CollectionStage::Removed => Err(Error::new(ErrorKind::NotFound { collection })),
        }
    }
}

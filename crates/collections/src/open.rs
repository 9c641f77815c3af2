//! What all handles of collections have in common.

use std::sync::Arc;

use crate::collection::{Collection, Description, Life};
use crate::error::{Error, Kind, Result};
use crate::home::Home;
use crate::transaction::Tx;

/// A handle of a collection: what it must be, and how it is made.
pub trait Handle: Sized + sealed::Sealed {
    /// What a collection must be to be opened as this.
    #[doc(hidden)]
    fn description() -> Description;

    #[doc(hidden)]
    fn attach(part: Part) -> Self;

    /// Compares what is stored with the types of this handle.
    #[doc(hidden)]
    fn check_stored(_part: &Part) -> impl Future<Output = Result<()>> + Send {
        std::future::ready(Ok(()))
    }
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// A collection and the replica that it belongs to.
#[doc(hidden)]
#[derive(Clone)]
pub struct Part {
    pub(crate) home: Arc<Home>,
    pub(crate) collection: Arc<Collection>,
}

impl Part {
    /// Refuses a transaction of another partition.
    pub(crate) fn check(&self, tx: &Tx<'_>) -> Result<()> {
        if Arc::ptr_eq(&self.home, &tx.home) {
            return Ok(());
        }
        Err(Error::new(Kind::ForeignTransaction {
            transaction: tx.id(),
            collection: self.collection.name.clone(),
        }))
    }

    /// Refuses a read outside of transactions if the collection is not committed.
    pub(crate) fn check_live(&self) -> Result<()> {
        self.home.check_open()?;
        self.home.check_owned()?;
        let collection = self.collection.name.clone();
        match self.collection.life() {
            Life::Live => self.collection.check_keys(),
            Life::Creating(_) => Err(Error::new(Kind::NotVisible { collection })),
            Life::Removed => Err(Error::new(Kind::NotFound { collection })),
        }
    }
}

//! Databases of a program without the engine on PostgreSQL.
//!
//! There is no value of an address, so that nothing has to be handled.

use std::convert::Infallible;
use std::str::FromStr;

use steadfast::id::Partition;
use steadfast::storage::backup::{DatabaseOptions, StorageLocation};
use steadfast::storage::{Ledger, Result};

use super::durability_argument::DurabilityArgument;

#[derive(Clone)]
pub(crate) struct DatabaseAddress(Infallible);

impl FromStr for DatabaseAddress {
    type Err = String;

    fn from_str(_: &str) -> std::result::Result<Self, String> {
        Err(
            "this program was built without the feature 'postgres': build it with the feature, \
             or name a data folder"
                .to_owned(),
        )
    }
}

impl DatabaseAddress {
    pub(super) fn location(&self, _: DurabilityArgument) -> StorageLocation {
        match self.0 {}
    }
}

pub(super) struct ExclusiveAccess(Infallible);

impl ExclusiveAccess {
    pub(super) async fn begin(options: &DatabaseOptions) -> Result<Self> {
        match *options {}
    }

    pub(super) async fn partitions(&self) -> Result<Vec<Partition>> {
        match self.0 {}
    }

    pub(super) async fn acquire(&mut self, _: Partition) -> Result<Ledger> {
        match self.0 {}
    }

    pub(super) async fn end(self) -> Result<()> {
        match self.0 {}
    }
}

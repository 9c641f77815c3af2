//! Databases as stores on the command line.

use std::str::FromStr;

pub(super) use steadfast::storage::backup::ExclusiveAccess;
use steadfast::storage::backup::{DatabaseOptions, StorageLocation};
use steadfast::storage::postgres::Durability;

use super::durability_argument::DurabilityArgument;

/// The address of a database, or of several, separated by spaces.
#[derive(Clone)]
pub(crate) struct DatabaseAddress(String);

impl FromStr for DatabaseAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(text.to_owned()))
    }
}

impl DatabaseAddress {
    /// The storage location of this address.
    pub(super) fn location(&self, durability: DurabilityArgument) -> StorageLocation {
        StorageLocation::Database(Box::new(self.options(durability)))
    }

    /// The options for opening it.
    pub(crate) fn options(&self, durability: DurabilityArgument) -> DatabaseOptions {
        DatabaseOptions {
            durability: match durability {
                DurabilityArgument::Quorum => Durability::Quorum,
                DurabilityArgument::Single => Durability::Single,
                DurabilityArgument::Provider => Durability::Provider,
            },
            ..DatabaseOptions::new(&self.0)
        }
    }
}

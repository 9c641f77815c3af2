//! The address of a store on the command line.

use std::path::PathBuf;
use std::str::FromStr;

use steadfast::storage::backup::StorageLocation;

use super::database::DatabaseAddress;
use super::durability_argument::DurabilityArgument;

/// A folder, with or without `local:` before it, or the address of a database, or of
/// several, separated by spaces.
#[derive(Clone)]
pub(crate) enum StorageAddress {
    Folder(PathBuf),
    Database(DatabaseAddress),
}

impl FromStr for StorageAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return text.parse().map(Self::Database);
        }
        let path = text.strip_prefix("local:").unwrap_or(text);
        Ok(Self::Folder(PathBuf::from(path)))
    }
}

impl StorageAddress {
    /// The storage location of this address.
    pub(crate) fn location(&self, durability: DurabilityArgument) -> StorageLocation {
        match self {
            Self::Folder(path) => StorageLocation::Folder(path.clone()),
            Self::Database(address) => address.location(durability),
        }
    }
}

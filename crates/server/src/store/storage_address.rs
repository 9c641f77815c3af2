//! The address of a store on the command line.

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum;
use steadfast::storage::backup::StorageLocation;
use steadfast::storage::postgres;

/// A folder, with or without `local:` before it, or the address of a database, or of
/// several, separated by spaces.
#[derive(Clone)]
pub(crate) enum StorageAddress {
    Folder(PathBuf),
    Database(String),
}

/// How a database keeps the second copy of an acknowledged commit.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityArgument {
    /// A standby of PostgreSQL, by synchronous replication
    Quorum,
    /// No second copy: one server
    Single,
    /// The provider, below PostgreSQL
    Provider,
}

impl From<DurabilityArgument> for postgres::Durability {
    fn from(durability: DurabilityArgument) -> Self {
        match durability {
            DurabilityArgument::Quorum => Self::Quorum,
            DurabilityArgument::Single => Self::Single,
            DurabilityArgument::Provider => Self::Provider,
        }
    }
}

impl FromStr for StorageAddress {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Ok(Self::Database(text.to_string()));
        }
        let path = text.strip_prefix("local:").unwrap_or(text);
        Ok(Self::Folder(PathBuf::from(path)))
    }
}

impl StorageAddress {
    /// The storage location of this address.
    pub(crate) fn location(&self, durability: DurabilityArgument) -> StorageLocation {
        let url = match self {
            Self::Folder(path) => return StorageLocation::Folder(path.clone()),
            Self::Database(url) => url,
        };
        let mut options = postgres::Options::new(url);
        options.durability = durability.into();
        StorageLocation::Database(Box::new(options))
    }
}

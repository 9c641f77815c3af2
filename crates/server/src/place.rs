//! The address of a store on the command line.

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum;
use steadfast::storage::backup::Place;
use steadfast::storage::postgres;

/// A folder, with or without `local:` before it, or the address of a database, or of
/// several, separated by spaces.
#[derive(Clone)]
pub(crate) enum Address {
    Folder(PathBuf),
    Database(String),
}

/// How a database keeps the second copy of an acknowledged commit.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Durability {
    /// A standby of PostgreSQL, by synchronous replication
    Quorum,
    /// No second copy: one server
    Single,
    /// The provider, below PostgreSQL
    Provider,
}

impl From<Durability> for postgres::Durability {
    fn from(durability: Durability) -> Self {
        match durability {
            Durability::Quorum => Self::Quorum,
            Durability::Single => Self::Single,
            Durability::Provider => Self::Provider,
        }
    }
}

impl FromStr for Address {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Ok(Self::Database(text.to_string()));
        }
        let path = text.strip_prefix("local:").unwrap_or(text);
        Ok(Self::Folder(PathBuf::from(path)))
    }
}

impl Address {
    /// The storage location of this address.
    pub(crate) fn place(&self, durability: Durability) -> Place {
        let url = match self {
            Self::Folder(path) => return Place::Folder(path.clone()),
            Self::Database(url) => url,
        };
        let mut options = postgres::Options::new(url);
        options.durability = durability.into();
        Place::Database(Box::new(options))
    }
}

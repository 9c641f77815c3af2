//! Where state is, as it is written on the command line.

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum;
use steadfast::storage::backup::Place;
use steadfast::storage::postgres;

/// A folder, with or without `local:` before it, or the address of a database; of
/// several, with spaces between them.
#[derive(Clone)]
pub(crate) enum Address {
    Folder(PathBuf),
    Database(String),
}

/// Who keeps the second copy of what a database acknowledges.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Durability {
    /// A standby of PostgreSQL, by synchronous replication
    Quorum,
    /// Nobody: one server
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
    /// The place at this address.
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

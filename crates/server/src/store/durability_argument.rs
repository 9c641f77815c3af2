//! The durability of a database on the command line.

use clap::ValueEnum;

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

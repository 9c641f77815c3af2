//! The engine for several nodes: PostgreSQL.
//!
//! A replicated, fenced log with tables beside it, on PostgreSQL 14 or newer with
//! synchronous replication. `docs/guides/postgres.md` says how it is set up.

mod append;
mod cas;
mod context;
mod database_snapshot;
mod digest;
mod engine;
mod flush;
mod known_partitions;
mod listing;
mod options;
mod pool;
mod reach;
mod read;
mod record;
mod safety;
mod schema;
mod schema_replacement;
mod scrub;
mod segments;
mod servers;
mod session;
mod statement_error;
mod tenure;
mod tls;
mod transfer;
mod verify;
mod watcher;

pub(crate) use cas::SHARD_RECORDS;
pub(crate) use database_snapshot::DatabaseSnapshot;
pub use engine::PostgresEngine;
pub use options::{Durability, Options};
pub(crate) use reach::expect_reachable;
pub(crate) use schema_replacement::{SchemaReplacement, has_schema};
pub use scrub::ScrubReport;
pub use transfer::TransferReport;

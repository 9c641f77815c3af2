//! The engine for several nodes: PostgreSQL.
//!
//! A replicated, fenced log with tables beside it, on PostgreSQL 14 or newer with
//! synchronous replication. `docs/guides/postgres.md` says how it is set up.

mod append;
mod cas;
mod digest;
mod engine;
mod fault;
mod flush;
mod frozen;
mod held;
mod listing;
mod options;
mod pool;
mod read;
mod record;
mod replace;
mod safety;
mod schema;
mod scrub;
mod segments;
mod servers;
mod session;
mod shared;
mod tenure;
mod tls;
mod transfer;
mod verify;
mod watcher;

pub(crate) use cas::SHARD_RECORDS;
pub use engine::Postgres;
pub(crate) use frozen::Frozen;
pub use options::{Durability, Options};
pub(crate) use replace::{Replacement, has_schema};
pub use scrub::Replica;
pub use transfer::Copied;

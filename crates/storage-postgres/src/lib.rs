//! The engine for several nodes: PostgreSQL.
//!
//! A replicated, fenced log with tables beside it, on PostgreSQL 14 or newer with
//! synchronous replication. `docs/guides/postgres.md` says how it is set up.
//!
//! # The files
//!
//! `docs/decisions/0007-postgres.md` gives the reasons.
//!
//! - `append.rs`: the commit, one fenced statement for many partitions. `record.rs` is an
//!   entry as rows.
//! - `tenure.rs`: acquire, renew, release. Every acquired partition passes `verify.rs` (log
//!   chain, digests of `digest.rs`, streams). `known_partitions.rs` keeps what was
//!   acknowledged, so that a database that has less is recognised as loss.
//! - `storage-postgres/src/flush.rs` and `segments.rs`: rows and digests in one transaction under a
//!   fence of its own; trimmed events are removed by the table.
//! - `read.rs` and `cas.rs`: reads and cluster records.
//! - `servers.rs` finds the primary, `session.rs` is one connection, `pool.rs` lends sessions,
//!   `statement_error.rs` classifies failures, `safety.rs` lists the required settings,
//!   `schema.rs` migrates.
//! - `watcher.rs` (wake-ups and settings) and `scrub.rs` (all replicas once a day) run beside
//!   it.
//!
//! The engine cancels no statement, decides nothing by a clock, and verifies every new
//! primary.
//!
//! **Several databases** (`shards`). A node always opens its databases through
//! `ShardedEngine`, also a single one.
//!
//! 1. `shards/open.rs` opens the databases of the address and compares them with the map
//!    (`shards/map.rs`), a record in shard 0: identities of the databases in order, the spread
//!    (shard = partition mod spread), and what was moved since. Every other shard holds a
//!    claim that names its owner, so that it is never opened alone or twice.
//! 2. `shards/engine.rs` sends each call to the engine of its partition. Cluster records are
//!    in shard 0, leases in every shard: each shard decides by itself whether a partition may
//!    be acquired.
//! 3. `Engine::shard` tells the store which log holds a partition. The store has one committer
//!    per shard (`storage/src/committers.rs`), so that a database that fails over delays only
//!    its own commits.
//!
//! A move (`backup/src/relocate.rs`) requires that no node has a lease. Per partition: acquire
//! it in the source (epoch + 1, everything verified); copy its rows as they are, in one
//! transaction of the target; verify log, digests, streams and every batch there
//! (`transfer.rs`); close the source (epoch + 1, `moved`: from then on no node acquires it
//! there, whatever map it has); switch the map; remove the rows. The partition stays in the
//! source until the source is closed; from then on it is in the target, and the next run
//! completes the move.
//!
//! Absent: a transaction over two databases, a move under load, a lease per shard.
//!
//! **A backup while several nodes write** (`database_snapshot.rs`) reads through one
//! transaction that sees log, rows and events of all partitions at one moment; a write behind
//! it proves that all of it is replicated. It is an engine of its own that acquires nothing
//! and refuses every write, so the same backup job serves it.
//!
//! # Tests
//!
//! - `tests/postgres_engine/conformance.rs`: the questions of the seam, to one database and to
//!   two.
//! - `tests/postgres_engine/failover.rs`: failover under load (`t01_..` to `t03_..`), by hand
//!   and by a manager.
//! - `tests/postgres_engine/refusals.rs`, `tests/postgres_engine/tls.rs`: refused databases,
//!   encryption.
//! - `tests/postgres_engine/faults.rs`: faults and damage on clusters of three (`t04_..` to
//!   `t15_..`).
//! - `tests/postgres_engine/rows.rs`: rows and tampering.
//! - `tests/postgres_engine/owners.rs`: acquisitions of one process that overlap.
//! - `crates/backup/tests/postgres_backup/shards.rs`: databases that are missing, foreign or
//!   exchanged, and a move that is interrupted again and again (`t14_..`).

mod append;
mod cas;
mod context;
mod database_snapshot;
mod digest;
mod engine;
mod error;
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
pub mod shards;
mod statement_error;
mod tenure;
mod tls;
mod transfer;
mod verify;
mod watcher;

pub use database_snapshot::DatabaseSnapshot;
pub use engine::PostgresEngine;
pub use error::ErrorKind;
pub use options::{Durability, Options};
pub use reach::expect_reachable;
pub use schema_replacement::{SchemaReplacement, has_schema};
pub use scrub::ScrubReport;
pub use transfer::TransferReport;

//! The place of a partition whose processes die: a schema.
//!
//! A folder holds the address of the server, which belongs to the parent, and the
//! name of the schema.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use steadfast_harness::postgres::PostgresServer;
use steadfast_storage::Engine;
use steadfast_storage_postgres::{Durability, Options, PostgresEngine};
use tempfile::TempDir;

/// Kills of C54; the failover tests of the engine kill more.
pub(crate) const ROUNDS: u64 = 12;
/// Snapshots of the bank that are added up, over all lives of the process.
pub(crate) const READS: u64 = 5_000;

/// A place with nothing in it.
pub(crate) fn new() -> TempDir {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let folder = tempfile::tempdir().unwrap();
    let schema = format!("place_{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let url = PostgresServer::shared().url("postgres");
    std::fs::write(folder.path().join("address"), format!("{url} {schema}")).unwrap();
    folder
}

pub(crate) async fn engine(path: &Path) -> Arc<dyn Engine> {
    let address = std::fs::read_to_string(path.join("address")).unwrap();
    let (url, schema) = address.split_once(' ').unwrap();
    let options = Options {
        durability: Durability::Single,
        schema: schema.to_owned(),
        ..Options::new(url)
    };
    Arc::new(PostgresEngine::open(options).await.unwrap())
}

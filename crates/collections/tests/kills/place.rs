//! The place of a partition whose processes die: a folder.

use std::path::Path;
use std::sync::Arc;

use steadfast_storage::Engine;
use steadfast_storage_local::{self as local, LocalEngine};
use tempfile::TempDir;

/// Kills of C54.
pub(crate) const ROUNDS: u64 = 200;
/// Snapshots of the bank that are added up, over all lives of the process.
pub(crate) const READS: u64 = 50_000;

/// A place with nothing in it.
pub(crate) fn new() -> TempDir {
    tempfile::tempdir().unwrap()
}

pub(crate) async fn engine(path: &Path) -> Arc<dyn Engine> {
    Arc::new(LocalEngine::open(path, &engine_options()).unwrap())
}

pub(crate) fn engine_options() -> local::Options {
    local::Options {
        log_file_bytes: 512 * 1024,
        event_file_bytes: 64 * 1024,
        inline_event_bytes: 16 * 1024,
        ..local::Options::default()
    }
}

//! Backup and restore of databases.
//!
//! A backup of a database that another process used meanwhile is discarded. A
//! restore is built in a separate schema, compared, and then switched in atomically;
//! with several databases, one switch per database.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::watch;

use super::backup_job::{BackupOptions, BackupReport, take};
use super::exclusive_access::{ExclusiveAccess, owner};
use super::offline::{RestorePolicy, verified};
use super::progress::BackupProgress;
use super::restore::{RestoreReport, restore};
use super::seal::BackupKey;
use crate::error::{Error, Result};
use crate::postgres::{Options as DatabaseOptions, SchemaReplacement, expect_reachable};
use crate::shards::ShardedEngine;
use crate::store::{Options, Store};

/// Backs up a database that no node uses.
pub async fn take_database(
    options: &DatabaseOptions,
    order: &BackupOptions,
    progress: &watch::Sender<BackupProgress>,
) -> Result<BackupReport> {
    let mut hold = ExclusiveAccess::begin(options).await?;
    let done = copy(&mut hold, order, progress).await;
    let ended = hold.end().await;
    let taken = done?;
    if let Err(error) = ended {
        let folder = &taken.folder;
        fs::remove_dir_all(folder).map_err(|e| Error::io(folder, "remove", e))?;
        return Err(error);
    }
    Ok(taken)
}

/// Backs up a database while nodes use it, as one consistent snapshot. Several
/// databases have no common snapshot and are refused.
pub async fn take_running(
    shards: &ShardedEngine,
    order: &BackupOptions,
    progress: &watch::Sender<BackupProgress>,
) -> Result<BackupReport> {
    let frozen = Arc::new(shards.freeze().await?);
    let mut settings = Options::new(owner());
    // Nothing is written, so nothing need be flushed.
    settings.log_target = u64::MAX;
    let store = Store::start(Arc::clone(&frozen) as _, settings);
    let taken = async {
        for partition in frozen.partitions().await? {
            let ledger = store.acquire(partition).await?;
            ledger.set_tables(frozen.tables(partition));
        }
        take(&store, order, progress).await
    };
    let taken = taken.await;
    store.close().await;
    taken
}

/// Restores a database. The chain is verified before anything is written.
pub async fn restore_database(
    from: &Path,
    options: &DatabaseOptions,
    policy: RestorePolicy,
    key: Option<&BackupKey>,
    progress: &watch::Sender<BackupProgress>,
) -> Result<RestoreReport> {
    expect_reachable(options).await?;
    let chain = verified(from, key, progress).await?;
    let mut replacements = Vec::new();
    for one in options.each() {
        let begun = SchemaReplacement::begin(&one, policy == RestorePolicy::Force).await?;
        replacements.push(begun);
    }
    let engine = ShardedEngine::open(&SchemaReplacement::options(options)).await?;
    let restored = restore(&engine, owner(), &chain, progress).await?;
    drop(engine);
    // The one with the map comes last: until then the databases do not fit together,
    // and no node starts on them.
    for replacement in replacements.into_iter().rev() {
        replacement.finish().await?;
    }
    Ok(restored)
}

/// Backs up all partitions.
async fn copy(
    hold: &mut ExclusiveAccess,
    order: &BackupOptions,
    progress: &watch::Sender<BackupProgress>,
) -> Result<BackupReport> {
    for partition in hold.partitions().await? {
        let ledger = hold.acquire(partition).await?;
        ledger.set_tables(hold.engine.tables(partition).await?);
    }
    take(&hold.store, order, progress).await
}

//! Backup and restore of databases.
//!
//! A backup of a database that another process used meanwhile is discarded. A
//! restore is built in a separate schema, compared, and then switched in atomically;
//! with several databases, one switch per database.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use steadfast_storage::{Error, Options, Result, Store};
pub use steadfast_storage_postgres::Options as DatabaseOptions;
use steadfast_storage_postgres::shards::ShardedEngine;
use steadfast_storage_postgres::{SchemaReplacement, expect_reachable};
use tokio::sync::watch;

use crate::backup_job::{BackupOptions, BackupReport, take};
use crate::exclusive_access::{ExclusiveAccess, owner};
use crate::offline::{RestorePolicy, verified};
use crate::progress::BackupProgress;
use crate::restore::{RestoreReport, restore};
use crate::seal::BackupKey;

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

/// Refuses databases that hold something.
pub(crate) async fn expect_empty(options: &DatabaseOptions) -> Result<()> {
    expect_reachable(options).await?;
    for one in options.each() {
        SchemaReplacement::begin(&one, false).await?;
    }
    Ok(())
}

/// All addresses without their passwords.
pub(crate) fn address(options: &DatabaseOptions) -> String {
    let shown: Vec<_> = options.each().iter().map(|one| public(&one.url)).collect();
    shown.join(" ")
}

/// An address without its password.
fn public(url: &str) -> String {
    let Some((login, rest)) = url.split_once('@') else {
        return bare(url).to_owned();
    };
    let (scheme, user) = login.split_once("://").unwrap_or(("postgres", login));
    let user = user.split(':').next().unwrap_or_default();
    format!("{scheme}://{user}@{}", bare(rest))
}

/// An address without its settings: one may be a password.
fn bare(url: &str) -> &str {
    url.split('?').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migrate::StorageLocation;

    #[test]
    fn a_place_is_shown_without_its_password() {
        let show = |url: &str| {
            let options = Box::new(DatabaseOptions::new(url));
            StorageLocation::Database(options).to_string()
        };
        let shown = "postgres://ada@db1,db2:5432/state";
        assert_eq!(show("postgres://ada:se?cret@db1,db2:5432/state"), shown);
        assert_eq!(
            show("postgres://ada@db1,db2:5432/state?password=secret"),
            shown
        );
        assert_eq!(show("postgres://db1/state"), "postgres://db1/state");
        let two = "postgres://ada:hush@db1/state postgres://ada:hush@db2/state";
        assert!(!show(two).contains("hush"), "{}", show(two));
    }
}

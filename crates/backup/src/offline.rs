//! Backup and restore of a data folder that is not open.
//!
//! A restore is built beside what the folder holds and takes its place in one
//! step, after it was read back and compared. Until then nothing of the old state
//! is touched, and the folder cannot be opened by mistake.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use steadfast_core::id::{Lsn, Owner, Partition};
use steadfast_storage::body::EntryBody;
use steadfast_storage::engine::Engine;
use steadfast_storage::{Error, ErrorKind as StorageKind, Options, Result, Store, meta};
use steadfast_storage_local::{
    FolderReplacement, LocalEngine, Options as LocalOptions, clean, is_data_folder,
};
use tokio::sync::watch;

use crate::backup_job::{BackupOptions, BackupReport, take};
use crate::chain::BackupChain;
use crate::error::ErrorKind;
use crate::identity;
use crate::manifest::Manifest;
use crate::progress::BackupProgress;
use crate::restore::{RestoreReport, restore};
use crate::seal::BackupKey;

/// Which restores are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestorePolicy {
    /// Into an empty folder, or over an older state of the same store.
    Safe,
    /// Over any state.
    Force,
}

/// What to restore, and where to.
#[derive(Clone, Debug)]
pub struct FolderRestore {
    /// A backup, or a folder of backups: then the newest one.
    pub from: PathBuf,
    /// The data folder.
    pub data: PathBuf,
    /// What to do if it holds something.
    pub policy: RestorePolicy,
    /// What opens the backup if it is sealed.
    pub key: Option<BackupKey>,
}

/// Backs up a data folder that no process has open.
pub async fn take_folder(
    data: &Path,
    order: &BackupOptions,
    progress: &watch::Sender<BackupProgress>,
) -> Result<BackupReport> {
    let engine = Arc::new(LocalEngine::open_existing(data, &LocalOptions::default())?);
    let mut options = Options::new(owner());
    // Nothing is written, so nothing need be flushed, and the tables stand still.
    options.log_target = u64::MAX;
    let store = Store::start(Arc::clone(&engine) as _, options);
    for partition in engine.partitions() {
        let ledger = store.acquire(partition).await?;
        // The tables of the folder are authoritative, not the list in its metadata.
        ledger.set_tables(engine.tables(partition)?);
    }
    let done = take(&store, order, progress).await;
    store.close().await;
    done
}

/// Restores a data folder. The chain is verified before anything is written.
pub async fn restore_folder(
    order: &FolderRestore,
    progress: &watch::Sender<BackupProgress>,
) -> Result<RestoreReport> {
    let chain = verified(&order.from, order.key.as_ref(), progress).await?;
    clean(&order.data)?;
    if order.policy == RestorePolicy::Safe && is_data_folder(&order.data) {
        check_newer(&order.data, chain.last()).await?;
    }
    let replacement = FolderReplacement::begin(&order.data)?;
    let options = LocalOptions {
        // No other work needs the disk.
        flush_rate_bytes: u64::MAX,
        ..LocalOptions::default()
    };
    let engine = LocalEngine::open(replacement.folder(), &options)?;
    let restored = restore(&engine, owner(), &chain, progress).await?;
    drop(engine);
    replacement.finish()?;
    Ok(restored)
}

/// A chain that can be read, and of which every byte was read.
pub(crate) async fn verified(
    from: &Path,
    key: Option<&BackupKey>,
    progress: &watch::Sender<BackupProgress>,
) -> Result<BackupChain> {
    let (from, key, progress) = (from.to_path_buf(), key.cloned(), progress.clone());
    let work = move || {
        let chain = BackupChain::open(&from, key.as_ref())?;
        chain.expect_restorable()?;
        chain.verify(&progress)?;
        Ok(chain)
    };
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::caused(StorageKind::Closed, error))?
}

/// Refuses a backup that is not ahead of what the folder holds.
async fn check_newer(data: &Path, backup: &Manifest) -> Result<()> {
    let refused = |what: String| {
        let path = data.to_path_buf();
        Err(Error::new(ErrorKind::NotNewer { path, what }))
    };
    let engine = LocalEngine::open(data, &LocalOptions::default())?;
    let current = standing(&engine).await?;
    let life = identity::find(&engine).await?;
    drop(engine);
    if current.iter().all(|(_, lsn)| lsn.0 == 0) {
        return Ok(());
    }
    if life.as_deref() != Some(backup.store.as_str()) {
        return refused("it is of another store, so which is newer is unknown".into());
    }
    let mut is_newer = false;
    for (partition, lsn) in current {
        let saved = backup.saved(partition).map_or(0, |saved| saved.lsn);
        if saved < lsn.0 {
            return refused(format!(
                "partition {partition} is at LSN {lsn}, the backup at {saved}"
            ));
        }
        is_newer |= saved > lsn.0;
    }
    if is_newer {
        Ok(())
    } else {
        refused("it has everything that the backup has".into())
    }
}

/// The last LSN of every partition of a folder.
async fn standing(engine: &LocalEngine) -> Result<Vec<(Partition, Lsn)>> {
    let mut found = Vec::new();
    for partition in engine.partitions() {
        let tenure = engine.tenure(partition);
        let damaged = |_| {
            let what = "its meta or last entry is malformed".to_string();
            Error::new(StorageKind::Lost { partition, what })
        };
        let mut lsn = meta::decode(tenure.meta).map_err(damaged)?.lsn;
        for entry in engine.replay(partition, tenure.last, 1).await? {
            let body = EntryBody::decode(entry.body).map_err(damaged)?;
            lsn = lsn.max(body.last_lsn());
        }
        found.push((partition, lsn));
    }
    Ok(found)
}

fn owner() -> Owner {
    Owner {
        node: 0,
        incarnation: fastrand::u128(..),
    }
}

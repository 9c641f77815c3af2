//! Backup and restore of a database that no node uses.
//!
//! A backup of a database that somebody else has used meanwhile is thrown away. A
//! restore is built in a schema of its own and takes its place in one step, after
//! it was compared.

use std::fs;
use std::path::Path;

use tokio::sync::watch;

use super::hold::{Hold, owner};
use super::offline::{Policy, verified};
use super::progress::Progress;
use super::restore::{Restored, restore};
use super::take::{Order, Taken, take};
use crate::error::{Error, Result};
use crate::postgres::{Options as DatabaseOptions, Postgres, Replacement};

/// Backs up a database that no node uses.
pub async fn take_database(
    options: &DatabaseOptions,
    order: &Order,
    progress: &watch::Sender<Progress>,
) -> Result<Taken> {
    let mut hold = Hold::begin(options).await?;
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

/// Restores a database. The chain is verified before anything is written.
pub async fn restore_database(
    from: &Path,
    options: &DatabaseOptions,
    policy: Policy,
    progress: &watch::Sender<Progress>,
) -> Result<Restored> {
    let chain = verified(from.to_path_buf(), progress.clone()).await?;
    let replacement = Replacement::begin(options, policy == Policy::Force).await?;
    let engine = Postgres::open(replacement.options()).await?;
    let restored = restore(&engine, owner(), &chain, progress).await?;
    drop(engine);
    replacement.finish().await?;
    Ok(restored)
}

/// Backs up all partitions.
async fn copy(hold: &mut Hold, order: &Order, progress: &watch::Sender<Progress>) -> Result<Taken> {
    for partition in hold.partitions().await? {
        let ledger = hold.acquire(partition).await?;
        ledger.set_tables(hold.engine.tables(partition).await?);
    }
    take(&hold.store, order, progress).await
}

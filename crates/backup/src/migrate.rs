//! Moving a store from one engine to another.
//!
//! A migration is a full backup of the one, in a folder of its own, and a restore
//! into the other, which must be empty. The backup is sealed with a key of this run
//! alone. Everything is read back from the new place and compared with digests of what
//! was read from the old one. The old place stays as it is; until the last step the new
//! one stays empty.

use std::fmt;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use steadfast_storage::{Error, ErrorKind, Result};
use steadfast_storage_local::is_data_folder;
use tokio::sync::watch;

use crate::backup_job::{BackupOptions, BackupReport};
use crate::database::{self, DatabaseOptions, restore_database, take_database};
use crate::manifest::Extent;
use crate::offline::{FolderRestore, RestorePolicy, restore_folder, take_folder};
use crate::progress::BackupProgress;
use crate::restore::RestoreReport;
use crate::seal::BackupKey;

/// Where a store keeps its state.
#[derive(Clone)]
pub enum StorageLocation {
    /// A folder of this machine.
    Folder(PathBuf),
    /// A PostgreSQL database.
    Database(Box<DatabaseOptions>),
}

impl fmt::Display for StorageLocation {
    /// The place, without a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => write!(f, "{}", path.display()),
            Self::Database(options) => f.write_str(&database::address(options)),
        }
    }
}

impl StorageLocation {
    /// Backs it up; no process may use it.
    pub async fn take(
        &self,
        order: &BackupOptions,
        progress: &watch::Sender<BackupProgress>,
    ) -> Result<BackupReport> {
        match self {
            Self::Folder(path) => take_folder(path, order, progress).await,
            Self::Database(options) => take_database(options, order, progress).await,
        }
    }

    /// Restores it; no process may use it. Only a folder can tell whether its state is
    /// an older one of the same store: a database must be empty unless the restore is forced.
    pub async fn restore(
        &self,
        from: &Path,
        policy: RestorePolicy,
        key: Option<&BackupKey>,
        progress: &watch::Sender<BackupProgress>,
    ) -> Result<RestoreReport> {
        let from = from.to_path_buf();
        match self {
            Self::Folder(path) => {
                let order = FolderRestore {
                    from,
                    data: path.clone(),
                    policy,
                    key: key.cloned(),
                };
                restore_folder(&order, progress).await
            }
            Self::Database(options) => {
                restore_database(&from, options, policy, key, progress).await
            }
        }
    }

    /// Refuses a place that holds something.
    async fn expect_empty(&self) -> Result<()> {
        let path = match self {
            Self::Folder(path) => path,
            Self::Database(options) => return database::expect_empty(options).await,
        };
        if !is_data_folder(path) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::NotEmpty {
            place: path.display().to_string(),
            what: "it is a data folder".to_string(),
        }))
    }
}

/// What to move, and where to.
#[derive(Clone)]
pub struct StoreMigration {
    /// Where the state is, and stays; no process may use it.
    pub from: StorageLocation,
    /// Where it goes; it must be empty.
    pub to: StorageLocation,
    /// A folder that does not exist yet; it is removed at the end.
    pub scratch: PathBuf,
}

/// Copies a store to another place and compares it there.
pub async fn migrate(
    migration: &StoreMigration,
    progress: &watch::Sender<BackupProgress>,
) -> Result<RestoreReport> {
    migration.to.expect_empty().await?;
    let scratch = Scratch::create(&migration.scratch)?;
    let key = BackupKey::random();
    let order = BackupOptions::new(&scratch.0, Extent::Full).sealed(&key);
    let taken = migration.from.take(&order, progress).await?;
    let (from, policy) = (&taken.folder, RestorePolicy::Safe);
    let restored = migration.to.restore(from, policy, Some(&key), progress);
    restored.await
}

/// A folder that is removed when it is dropped, and that others cannot read.
struct Scratch(PathBuf);

impl Scratch {
    fn create(path: &Path) -> Result<Self> {
        let made = DirBuilder::new().mode(0o700).create(path);
        made.map_err(|e| Error::io(path, "create", e))?;
        Ok(Self(path.to_path_buf()))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            let path = self.0.display();
            tracing::warn!(
                event = "backup.scratch_kept",
                %error,
                %path,
                "a scratch folder was not removed",
            );
        }
    }
}

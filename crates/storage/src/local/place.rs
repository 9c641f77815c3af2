//! Folders: made, locked, and their names made durable.

use std::fs::{self, File, TryLockError};
use std::path::Path;

use crate::error::{Error, Kind, Result};

/// The file that is locked while a folder is open.
pub(super) const LOCK_FILE: &str = "LOCK";

/// Makes the names in a folder durable.
pub(super) fn sync_folder(path: &Path) -> Result<()> {
    File::open(path)
        .and_then(|folder| folder.sync_all())
        .map_err(|e| Error::io(path, "sync", e))
}

/// Creates a folder and those above it, durably.
pub(crate) fn create_folder(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent {
        create_folder(parent)?;
    }
    fs::create_dir_all(path).map_err(|e| Error::io(path, "create", e))?;
    sync_folder(parent.unwrap_or(Path::new(".")))
}

/// Locks a folder until the answer is closed.
pub(super) fn lock(root: &Path) -> Result<File> {
    let path = root.join(LOCK_FILE);
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(|e| Error::io(&path, "open", e))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::new(Kind::FolderInUse {
            path: root.to_path_buf(),
        })),
        Err(TryLockError::Error(e)) => Err(Error::io(&path, "lock", e)),
    }
}

//! Creating, locking and syncing folders.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::private;

/// The file that is locked while a folder is open.
pub(super) const LOCK_FILE: &str = "LOCK";

/// How often, and after which pause, a locked folder is retried. A previous process may
/// still hold the lock for a moment while it dies, and so may a child that it forked,
/// until that calls exec.
const LOCK_TRIES: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

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
    private::create_dir_all(path).map_err(|e| Error::io(path, "create", e))?;
    sync_folder(parent.unwrap_or(Path::new(".")))
}

/// Locks a folder until the answer is closed.
pub(super) fn lock(root: &Path) -> Result<File> {
    let path = root.join(LOCK_FILE);
    let file = private::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(|e| Error::io(&path, "open", e))?;
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            Err(TryLockError::Error(e)) => return Err(Error::io(&path, "lock", e)),
        }
    }
    Err(Error::new(ErrorKind::FolderInUse {
        path: root.to_path_buf(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_about_to_be_free_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let first = lock(folder.path()).unwrap();
        let freeing = std::thread::Builder::new().spawn(move || {
            std::thread::sleep(LOCK_PAUSE * 5);
            drop(first);
        });
        let second = lock(folder.path()).unwrap();
        freeing.unwrap().join().unwrap();
        let error = lock(folder.path()).unwrap_err();
        assert_eq!(error.code().0, "STF-2001");
        drop(second);
    }
}

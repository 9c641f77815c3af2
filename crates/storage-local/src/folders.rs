//! Creating, locking and syncing folders.

use std::fs::{self, File, TryLockError};
use std::path::Path;
use std::time::Duration;

use steadfast_storage::{Error, Result, private};

use crate::error::ErrorKind;
use crate::lock_holder::{LOCK_FILE, lock_holder};

/// How often, and after which pause, a locked folder is retried. A previous process may
/// still hold the lock for a moment while it dies, and so may a child that it forked,
/// until that calls exec.
const LOCK_TRIES: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(path: &Path) -> Result<()> {
    File::open(path)
        .and_then(|folder| folder.sync_all())
        .map_err(|e| Error::io(path, "sync", e))
}

/// Creates a folder and those above it, durably. If one cannot be created, those that were
/// are removed again.
pub fn create_folder(path: &Path) -> Result<()> {
    let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.is_dir();
    let missing: Vec<_> = path.ancestors().take_while(is_missing).collect();
    for (index, folder) in missing.iter().enumerate().rev() {
        if let Err(error) = create_one(folder) {
            for folder in &missing[index..] {
                // It may not exist, and what is not empty stays.
                let _ = fs::remove_dir(folder);
            }
            return Err(error);
        }
    }
    Ok(())
}

fn create_one(path: &Path) -> Result<()> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    private::create_dir_all(path).map_err(|e| Error::io(path, "create", e))?;
    sync_folder(parent.unwrap_or(Path::new(".")))
}

/// Locks a folder until the answer is closed.
pub(crate) fn lock(root: &Path) -> Result<File> {
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
        holder: lock_holder(root),
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
        let holder = format!("process {}", std::process::id());
        assert!(error.to_string().contains(&holder), "{error}");
        drop(second);
    }

    #[test]
    fn the_holder_of_a_locked_folder_is_this_process() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(lock_holder(folder.path()), None);
        let held = lock(folder.path()).unwrap();
        assert_eq!(lock_holder(folder.path()), Some(std::process::id()));
        drop(held);
        assert_eq!(lock_holder(folder.path()), None);
    }

    #[test]
    fn a_folder_that_cannot_be_created_leaves_none_above_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b").join("c".repeat(300));
        create_folder(&path).unwrap_err();
        assert!(!folder.path().join("a").exists());
        create_folder(&folder.path().join("a/b/c")).unwrap();
        create_folder(&path).unwrap_err();
        assert!(folder.path().join("a/b/c").is_dir());
    }
}

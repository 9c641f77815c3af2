//! A folder of backups, and the one that is being written.
//!
//! A backup is written under a temporary name and renamed when its manifest is
//! durable, so a folder with a final name is a whole backup unless it was damaged
//! later. The next backup removes what a crash left.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use steadfast_storage::{Error, Result, private};
use steadfast_storage_local::create_folder;

use crate::error::ErrorKind;
use crate::folder::BackupFolder;
use crate::manifest::{Extent, Manifest};

const LOCK_FILE: &str = "LOCK";
const UNFINISHED: &str = ".unfinished";

/// A folder of backups, locked for writing.
pub(crate) struct BackupRepository {
    path: PathBuf,
    next: u64,
    _lock: File,
}

/// A backup that is being written; dropping it removes it.
pub(crate) struct BackupDraft<'a> {
    shelf: &'a BackupRepository,
    name: String,
    pub(crate) folder: PathBuf,
    is_done: bool,
}

impl BackupRepository {
    /// Opens a folder of backups, creating it if need be.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        create_folder(path)?;
        let lock = lock(path)?;
        let mut next = 1;
        close(path)?;
        for (name, folder) in list(path)? {
            if name.ends_with(UNFINISHED) && number_of(name.trim_end_matches(UNFINISHED)).is_some()
            {
                fs::remove_dir_all(&folder).map_err(|e| Error::io(&folder, "remove", e))?;
            }
            if let Some(number) = number_of(&name) {
                next = next.max(number + 1);
            }
        }
        Ok(Self {
            path: path.to_path_buf(),
            next,
            _lock: lock,
        })
    }

    /// Begins a backup.
    pub(crate) fn draft(&self, extent: Extent) -> Result<BackupDraft<'_>> {
        let name = format!("{:06}-{}", self.next, word(extent));
        let folder = self.path.join(format!("{name}{UNFINISHED}"));
        private::create_dir(&folder).map_err(|e| Error::io(&folder, "create", e))?;
        Ok(BackupDraft {
            shelf: self,
            name,
            folder,
            is_done: false,
        })
    }
}

impl BackupDraft<'_> {
    /// Makes it a backup, durably, by writing its manifest and giving it its name.
    pub(crate) fn finish(
        mut self,
        folder: &BackupFolder,
        manifest: Manifest,
    ) -> Result<(PathBuf, Manifest)> {
        let manifest = manifest.write(folder)?;
        let path = self.shelf.path.join(&self.name);
        let rename = || -> std::io::Result<()> {
            fs::rename(&self.folder, &path)?;
            File::open(&self.shelf.path)?.sync_all()
        };
        rename().map_err(|e| Error::io(&path, "name", e))?;
        self.is_done = true;
        Ok((path, manifest))
    }
}

impl Drop for BackupDraft<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            // What is left of it, the next backup removes.
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// Whole backups in a folder: number, name and path, oldest first.
pub(crate) fn backups(shelf: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let found = list(shelf)?.into_iter();
    let found = found.filter_map(|(name, path)| Some((number_of(&name)?, path)));
    let mut found: Vec<_> = found.collect();
    found.sort();
    Ok(found)
}

/// The number in the name of a backup.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    let (number, extent) = name.split_once('-')?;
    let is_ours = [Extent::Full, Extent::Incremental]
        .iter()
        .any(|known| word(*known) == extent);
    let is_number = number.len() >= 6 && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_ours && is_number).then(|| number.parse().ok())?
}

fn word(extent: Extent) -> &'static str {
    match extent {
        Extent::Full => "full",
        Extent::Incremental => "incremental",
    }
}

fn list(path: &Path) -> Result<Vec<(String, PathBuf)>> {
    let failed = |e| Error::io(path, "list", e);
    let mut found = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if let Ok(name) = entry.file_name().into_string() {
            found.push((name, entry.path()));
        }
    }
    Ok(found)
}

/// Closes backups that are open to others, and the folder if nothing else is in it.
fn close(shelf: &Path) -> Result<()> {
    let (ours, others): (Vec<_>, Vec<_>) = list(shelf)?
        .into_iter()
        .partition(|(name, _)| name == LOCK_FILE || number_of(name).is_some());
    if others.is_empty() {
        private::close(shelf).log(shelf)
    } else {
        for (_, backup) in ours {
            private::close(&backup).log(&backup);
        }
    }
    Ok(())
}

fn lock(path: &Path) -> Result<File> {
    let file = path.join(LOCK_FILE);
    let lock = private::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&file)
        .map_err(|e| Error::io(&file, "open", e))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(Error::new(ErrorKind::BackupInProgress {
            path: path.to_path_buf(),
        })),
        Err(TryLockError::Error(e)) => Err(Error::io(&file, "lock", e)),
    }
}

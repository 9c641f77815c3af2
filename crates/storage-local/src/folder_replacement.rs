//! A data folder that takes another's place.
//!
//! The new one is built in the folder `restoring` inside the old one. Its file
//! `COMPLETE` is the moment of the change. Before it the old state counts: a
//! replacement that fails removes what it has built, and after a crash the next open
//! does. After it the new state counts, and the next open moves it into place. Each
//! step may be repeated, so a crash between any two does no harm.
//!
//! A folder that held no state before stays closed after a crash: an empty store would
//! open in place of the one that was to be restored.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use steadfast_storage::{Error, Result, private};

use crate::error::ErrorKind;
use crate::folders::{create_folder, lock, sync_folder};
use crate::lock_holder::LOCK_FILE;

/// The folder in which a replacement is built.
pub(crate) const RESTORING: &str = "restoring";
const COMPLETE_FILE: &str = "COMPLETE";
const FORMAT_FILE: &str = "FORMAT";

/// What an operator puts into the folder of a new machine before the state is restored:
/// the keys of the server.
const KEY_FILES: [&str; 2] = ["secret.key", "keys.toml"];

/// What is moved, the format last: a folder without it is not opened.
const PARTS: [&str; 4] = ["log", "tables", "events", FORMAT_FILE];

/// A folder that is being built to take another's place. Dropped before its end, it
/// leaves the old one as it was.
pub struct FolderReplacement {
    root: PathBuf,
    folder: PathBuf,
    _lock: File,
}

impl FolderReplacement {
    /// Begins a replacement. The old folder is locked until its end.
    pub fn begin(root: &Path) -> Result<Self> {
        let (root, lock) = lock_clean(root)?;
        check_ours(&root)?;
        let folder = root.join(RESTORING);
        private::create_dir(&folder).map_err(|e| Error::io(&folder, "create", e))?;
        sync_folder(&root)?;
        Ok(Self {
            root,
            folder,
            _lock: lock,
        })
    }

    /// Where to build.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Lets the new folder take the old one's place. It must be closed and durable.
    pub fn finish(self) -> Result<()> {
        let complete = self.folder.join(COMPLETE_FILE);
        let file = private::create(&complete).and_then(|file| file.sync_all());
        file.map_err(|e| Error::io(&complete, "create", e))?;
        sync_folder(&self.folder)?;
        move_into_place(&self.root)
    }
}

/// Ends what an earlier replacement has begun: a complete one takes its place,
/// another one is thrown away.
pub fn clean(root: &Path) -> Result<()> {
    if root.exists() {
        lock_clean(root).map(drop)
    } else {
        Ok(())
    }
}

impl Drop for FolderReplacement {
    fn drop(&mut self) {
        let (root, folder) = (&self.root, &self.folder);
        if !folder.exists() || folder.join(COMPLETE_FILE).exists() {
            return;
        }
        // What cannot be removed now is removed when the folder is opened.
        if let Err(error) = remove(folder).and_then(|()| sync_folder(root)) {
            let folder = folder.display();
            tracing::warn!(event = "storage.file_kept", %folder, %error, "a restore was not removed");
        }
    }
}

/// Before a folder is opened: a complete replacement takes its place, and one that is
/// not is removed. Without an old state it refuses the folder.
pub(crate) fn finish_interrupted(root: &Path) -> Result<()> {
    let folder = root.join(RESTORING);
    if !folder.exists() {
        return Ok(());
    }
    if folder.join(COMPLETE_FILE).exists() {
        return move_into_place(root);
    }
    let is_empty = fs::read_dir(&folder).map(|mut entries| entries.next().is_none());
    // In an empty one nothing was begun yet, or nothing is left to do.
    if !is_empty.map_err(|e| Error::io(&folder, "list", e))? {
        if !root.join(FORMAT_FILE).exists() {
            return Err(Error::new(ErrorKind::RestoreUnfinished {
                path: root.to_path_buf(),
            }));
        }
        let folder = root.display();
        tracing::warn!(event = "storage.restore_discarded", %folder, "a restore was not finished");
    }
    remove(&folder)?;
    sync_folder(root)
}

fn lock_clean(root: &Path) -> Result<(PathBuf, File)> {
    // A foreign folder is refused before anything is created in it.
    if root.is_dir() && !root.join(RESTORING).exists() {
        check_ours(root)?;
    }
    create_folder(root)?;
    let root = fs::canonicalize(root).map_err(|e| Error::io(root, "open", e))?;
    let lock = lock(&root)?;
    let folder = root.join(RESTORING);
    if folder.join(COMPLETE_FILE).exists() {
        move_into_place(&root)?;
    }
    remove(&folder)?;
    sync_folder(&root)?;
    Ok((root, lock))
}

/// Refuses a folder with foreign content.
fn check_ours(root: &Path) -> Result<()> {
    if root.join(FORMAT_FILE).exists() {
        return Ok(());
    }
    let failed = |e| Error::io(root, "list", e);
    for entry in fs::read_dir(root).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let is_ours = name == LOCK_FILE || name == "FORMAT.new";
        if !is_ours && !KEY_FILES.iter().any(|file| name == *file) {
            let path = root.to_path_buf();
            return Err(Error::new(ErrorKind::ForeignFolder { path }));
        }
    }
    Ok(())
}

fn move_into_place(root: &Path) -> Result<()> {
    let folder = root.join(RESTORING);
    for part in PARTS {
        let (new, old) = (folder.join(part), root.join(part));
        if new.exists() {
            remove(&old)?;
            fs::rename(&new, &old).map_err(|e| Error::io(&new, "move", e))?;
        }
    }
    sync_folder(root)?;
    sync_folder(&folder)?;
    // The mark goes last, and with it all that is left.
    remove(&folder.join(LOCK_FILE))?;
    remove(&folder.join(COMPLETE_FILE))?;
    sync_folder(&folder)?;
    remove(&folder)?;
    sync_folder(root)
}

/// Removes a file or folder, if it is there.
fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    match removed {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io(path, "remove", e)),
        _ => Ok(()),
    }
}

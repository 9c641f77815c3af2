//! The data folder: its lock, its format, its layout.
//!
//! `LOCK` is held for as long as the engine lives, so a second process cannot
//! open the folder. `FORMAT` says which version wrote it and carries the salt that
//! every log record repeats. It is the first thing written, so a folder without it
//! was never a data folder.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use steadfast_storage::{Error, Result, private};

use crate::error::ErrorKind;
use crate::folder_replacement::{RESTORING, finish_interrupted};
use crate::folders::{create_folder, lock, sync_folder};
use crate::lock_holder::LOCK_FILE;

/// The newest format that this version reads and the one that it writes.
pub(crate) const FORMAT: u32 = 1;

const FORMAT_FILE: &str = "FORMAT";
const DRAFT_FILE: &str = "FORMAT.new";

/// An open data folder.
pub(crate) struct DataFolder {
    pub(crate) root: PathBuf,
    /// Distinguishes this folder's log records from any other bytes.
    pub(crate) salt: u64,
    /// Unlocks when it is closed.
    _lock: File,
}

impl DataFolder {
    /// Opens a folder, or makes a new one. A folder that is refused stays as it is.
    pub(crate) fn open(root: &Path) -> Result<Self> {
        expect_usable(root)?;
        create_folder(root)?;
        let root = fs::canonicalize(root).map_err(|e| Error::io(root, "open", e))?;
        let lock = lock(&root)?;
        finish_interrupted(&root)?;
        let salt = match read_format(&root)? {
            Some(salt) => salt,
            None => create(&root)?,
        };
        // It is a data folder by now, so permissions in it may be tightened.
        private::close(&root).log(&root);
        for name in ["log", "tables", "events"] {
            let path = root.join(name);
            private::create_dir_all(&path).map_err(|e| Error::io(&path, "create", e))?;
            // A process that was killed may have left names that are not durable.
            sync_folder(&path)?;
        }
        sync_folder(&root)?;
        Ok(Self {
            root,
            salt,
            _lock: lock,
        })
    }
}

/// Refuses a foreign folder and a newer format before anything is created in the folder.
/// What a restore has begun is judged later, under the lock.
fn expect_usable(root: &Path) -> Result<()> {
    if !root.is_dir() || root.join(RESTORING).exists() || read_format(root)?.is_some() {
        return Ok(());
    }
    match expect_new(root) {
        // Another process may have made it a data folder meanwhile.
        Err(_) if is_data_folder(root) => Ok(()),
        result => result,
    }
}

/// Whether there is a data folder, whole or not.
pub fn is_data_folder(root: &Path) -> bool {
    root.join(FORMAT_FILE).exists()
}

fn read_format(root: &Path) -> Result<Option<u64>> {
    let path = root.join(FORMAT_FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::io(&path, "read", e)),
    };
    let damaged = || Error::corrupt(&path, 0, "not a format of Steadfast");
    let mut words = text.split_whitespace();
    if words.next() != Some("steadfast-data") {
        return Err(damaged());
    }
    let found = words.next().and_then(|word| word.parse().ok());
    let found: u32 = found.ok_or_else(damaged)?;
    if found > FORMAT {
        return Err(Error::new(ErrorKind::NewerFormat {
            path: root.to_path_buf(),
            found,
            known: FORMAT,
        }));
    }
    let salt = words
        .next()
        .and_then(|word| u64::from_str_radix(word, 16).ok());
    salt.map(Some).ok_or_else(damaged)
}

/// Refuses a folder with content.
fn expect_new(root: &Path) -> Result<()> {
    let entries = fs::read_dir(root).map_err(|e| Error::io(root, "list", e))?;
    for entry in entries {
        let name = entry.map_err(|e| Error::io(root, "list", e))?.file_name();
        if name != LOCK_FILE && name != DRAFT_FILE {
            let path = root.to_path_buf();
            return Err(Error::new(ErrorKind::ForeignFolder { path }));
        }
    }
    Ok(())
}

fn create(root: &Path) -> Result<u64> {
    expect_new(root)?;
    let salt = fastrand::u64(..);
    let draft = root.join(DRAFT_FILE);
    let write = || -> io::Result<()> {
        let mut file = private::create(&draft)?;
        writeln!(file, "steadfast-data {FORMAT} {salt:016x}")?;
        file.sync_all()?;
        fs::rename(&draft, root.join(FORMAT_FILE))
    };
    write().map_err(|e| Error::io(&draft, "write", e))?;
    sync_folder(root)?;
    Ok(salt)
}

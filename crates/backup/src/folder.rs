//! The folder of one backup, and what seals its files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use steadfast_storage::{Error, Result};

use crate::block::{BlockReader, BlockWriter};
use crate::digest::RowDigest;
use crate::error::ErrorKind;
use crate::manifest_file::FileContent;
use crate::seal::{DataKey, FileKey};

/// Where the files of a backup are, and how they are written and read.
#[derive(Clone, Debug)]
pub(crate) struct BackupFolder {
    pub(crate) path: PathBuf,
    access: FileAccess,
}

/// Whether the files of a backup can be read.
#[derive(Clone, Debug)]
enum FileAccess {
    /// They are plain text.
    Plain,
    /// They are sealed, and this opens them.
    Open(Arc<DataKey>),
    /// They are sealed with the key of this fingerprint.
    Locked(String),
}

impl BackupFolder {
    /// A backup that is plain, or sealed with its key.
    pub(crate) fn new(path: &Path, key: Option<DataKey>) -> Self {
        let access = key.map_or(FileAccess::Plain, |key| FileAccess::Open(Arc::new(key)));
        Self {
            path: path.to_path_buf(),
            access,
        }
    }

    /// A backup that is sealed, without its key.
    pub(crate) fn locked(path: &Path, fingerprint: &str) -> Self {
        Self {
            path: path.to_path_buf(),
            access: FileAccess::Locked(fingerprint.to_owned()),
        }
    }

    /// Begins a new file.
    pub(crate) fn create(&self, name: &str, content: FileContent) -> Result<BlockWriter> {
        let key = self.file_key(name, content)?;
        BlockWriter::create(&self.path.join(name), content, key)
    }

    /// Opens a file that should hold such content.
    pub(crate) fn open(&self, name: &str, content: FileContent) -> Result<BlockReader> {
        let key = self.file_key(name, content)?;
        BlockReader::open(&self.path.join(name), content, key)
    }

    /// Whether its files are sealed and can be opened.
    pub(crate) fn is_opened(&self) -> bool {
        matches!(self.access, FileAccess::Open(_))
    }

    /// Refuses a backup whose files cannot be read.
    pub(crate) fn expect_readable(&self) -> Result<()> {
        self.data_key().map(drop)
    }

    /// A digest of rows, as the manifest has it. That of a sealed backup reveals nothing
    /// about the rows without its key.
    pub(crate) fn row_digest(&self, digest: &RowDigest) -> Result<String> {
        Ok(match self.data_key()? {
            Some(key) => key.digest(&digest.text()),
            None => digest.text(),
        })
    }

    /// What authenticates the manifest of a sealed backup.
    pub(crate) fn data_key(&self) -> Result<Option<&DataKey>> {
        match &self.access {
            FileAccess::Plain => Ok(None),
            FileAccess::Open(key) => Ok(Some(key)),
            FileAccess::Locked(fingerprint) => Err(Error::new(ErrorKind::BackupKey {
                path: self.path.clone(),
                what: format!(
                    "the backup is sealed with the key {fingerprint}, and no key was given; \
                     give the key of the server that took it"
                ),
            })),
        }
    }

    fn file_key(&self, name: &str, content: FileContent) -> Result<Option<FileKey>> {
        Ok(self.data_key()?.map(|key| key.file(name, content)))
    }
}

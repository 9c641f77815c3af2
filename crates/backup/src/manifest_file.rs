//! Files of a backup, as its manifest names them.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use steadfast_storage::Error;

use crate::error::ErrorKind;

/// The format of backups in plain text.
pub(crate) const PLAIN_FORMAT: u32 = 1;
/// The format of sealed backups, the newest that this version reads.
pub(crate) const SEALED_FORMAT: u32 = 2;

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FileContent {
    Rows = 1,
    Delta = 2,
    Events = 3,
    Tail = 4,
    State = 5,
    Records = 6,
}

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ManifestFile {
    pub(crate) name: String,
    pub(crate) content: FileContent,
    pub(crate) partition: Option<u32>,
    pub(crate) bytes: u64,
    pub(crate) digest: String,
}

/// Damage to a file of a backup.
pub(crate) fn damaged(file: &Path, what: impl Into<String>) -> Error {
    Error::new(ErrorKind::DamagedBackup {
        file: file.to_path_buf(),
        what: what.into(),
    })
}

/// A file that was altered without the key.
pub(crate) fn altered(file: &Path, what: impl Into<String>) -> Error {
    Error::new(ErrorKind::AlteredBackup {
        file: file.to_path_buf(),
        what: what.into(),
    })
}

/// Missing and short files are damage, anything else is an I/O error.
pub(crate) fn unreadable(path: &Path, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => damaged(path, "it is missing"),
        io::ErrorKind::UnexpectedEof => damaged(path, "it is cut off"),
        _ => Error::io(path, "read", error),
    }
}

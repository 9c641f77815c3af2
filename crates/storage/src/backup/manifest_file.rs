//! Files of a backup, as its manifest names them.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind};

/// The format of backups in plain text.
pub(super) const PLAIN_FORMAT: u32 = 1;
/// The format of sealed backups, the newest that this version reads.
pub(super) const SEALED_FORMAT: u32 = 2;

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FileContent {
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
pub(super) struct ManifestFile {
    pub(super) name: String,
    pub(super) content: FileContent,
    pub(super) partition: Option<u32>,
    pub(super) bytes: u64,
    pub(super) digest: String,
}

/// Damage to a file of a backup.
pub(super) fn damaged(file: &Path, what: impl Into<String>) -> Error {
    Error::new(ErrorKind::DamagedBackup {
        file: file.to_path_buf(),
        what: what.into(),
    })
}

/// A file that was altered without the key.
pub(super) fn altered(file: &Path, what: impl Into<String>) -> Error {
    Error::new(ErrorKind::AlteredBackup {
        file: file.to_path_buf(),
        what: what.into(),
    })
}

/// Missing and short files are damage, anything else is an I/O error.
pub(super) fn unreadable(path: &Path, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => damaged(path, "it is missing"),
        io::ErrorKind::UnexpectedEof => damaged(path, "it is cut off"),
        _ => Error::io(path, "read", error),
    }
}

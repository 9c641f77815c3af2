//! Files of a backup, as its manifest names them.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Kind};

/// The newest format that this version reads and the one that it writes.
pub(super) const FORMAT: u32 = 1;

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Content {
    Rows = 1,
    Delta = 2,
    Events = 3,
    Tail = 4,
    State = 5,
    Records = 6,
}

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SavedFile {
    pub(super) name: String,
    pub(super) content: Content,
    pub(super) partition: Option<u32>,
    pub(super) bytes: u64,
    pub(super) digest: String,
}

/// Damage to a file of a backup.
pub(super) fn damaged(file: &Path, what: impl Into<String>) -> Error {
    Error::new(Kind::DamagedBackup {
        file: file.to_path_buf(),
        what: what.into(),
    })
}

/// Missing and short files are damage, anything else is the system's refusal.
pub(super) fn unreadable(path: &Path, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => damaged(path, "it is missing"),
        io::ErrorKind::UnexpectedEof => damaged(path, "it is cut off"),
        _ => Error::io(path, "read", error),
    }
}

//! What can go wrong with a backup.

use std::path::PathBuf;

use steadfast_core::error::Code;
use steadfast_core::id::Partition;
use steadfast_macros::ErrorKind;
use steadfast_storage::SpecificKind;

/// The kinds of failure that only backups have; each has its own code.
#[derive(Clone, Debug, PartialEq, Eq, ErrorKind)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Another backup of this store, or to this folder, is under way.
    #[error("STF-2050", "a backup to {} is under way; wait until it is done", path.display())]
    BackupInProgress { path: PathBuf },
    /// There is no full backup that could be built on.
    #[error(
        "STF-2051",
        "{} has no full backup to build on: {why}; take a full one",
        path.display()
    )]
    MissingFullBackup { path: PathBuf, why: String },
    /// Backups do not follow one another.
    #[error(
        "STF-2052",
        "the chain of {} is broken: {what}; bring the backup back or use another one",
        path.display()
    )]
    BrokenChain { path: PathBuf, what: String },
    /// A file of a backup is missing, altered or cut off.
    #[error(
        "STF-2053",
        "{} is damaged: {what}; use another copy or an earlier backup",
        file.display()
    )]
    DamagedBackup { file: PathBuf, what: String },
    /// The backup was written by a newer version.
    #[error(
        "STF-2054",
        "{} has format {found}, this version knows up to {known}; use a newer steadfast",
        path.display()
    )]
    NewerBackup {
        path: PathBuf,
        found: u32,
        known: u32,
    },
    /// The key of a sealed backup is missing or another one.
    #[error("STF-2062", "{}: {what}", path.display())]
    BackupKey { path: PathBuf, what: String },
    /// A file of a sealed backup is not what was sealed.
    #[error(
        "STF-2063",
        "{} was altered after the backup was sealed: {what}; use another copy or an earlier backup",
        file.display()
    )]
    AlteredBackup { file: PathBuf, what: String },
    /// The existing state is not older than the backup.
    #[error(
        "STF-2055",
        "{} has state that the backup would not bring forward: {what}; use an empty folder, or force it",
        path.display()
    )]
    NotNewer { path: PathBuf, what: String },
    /// What was restored is not what was backed up.
    #[error(
        "STF-2057",
        "partition {partition} does not come back as it was: {what}; check the disk and restore again"
    )]
    RestoreDiffers { partition: Partition, what: String },
}

impl SpecificKind for ErrorKind {
    fn code(&self) -> Code {
        self.code()
    }
}

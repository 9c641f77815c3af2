//! What can go wrong with stored state.
//!
//! Every kind has a stable code and a page in `docs/errors/`. Errors are cheap to
//! clone, because one failed group answers many callers.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use steadfast_core::error::Code;
use steadfast_core::id::{Epoch, Owner, Partition, Sequence, StreamId};
use steadfast_macros::ErrorKind;

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// An error: what happened, to what, and its cause.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// The kinds of failure; each has its own code.
#[derive(Clone, Debug, PartialEq, Eq, ErrorKind)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Stored bytes are damaged where they must not be.
    #[error(
        "STF-2003",
        "{} is damaged at byte {offset}: {what}; restore from a backup",
        file.display()
    )]
    Corrupt {
        file: PathBuf,
        offset: u64,
        what: String,
    },
    /// The disk has no room for the write; nothing was written.
    #[error(
        "STF-2004",
        "no room left for {}; nothing was written, free some space and try again",
        path.display()
    )]
    DiskFull { path: PathBuf },
    /// The folder or a file in it cannot be written.
    #[error(
        "STF-2005",
        "{} cannot be written; check its owner, its mode and its mount",
        path.display()
    )]
    NotWritable { path: PathBuf },
    /// A write or sync of the log failed; it takes no more writes.
    #[error(
        "STF-2006",
        "writing {} failed, so no more writes are taken; check the disk, then restart",
        path.display()
    )]
    LogStopped { path: PathBuf },
    /// Another owner has taken the partition.
    #[error(
        "STF-2007",
        "partition {partition} has another owner since epoch {epoch}; ask that owner"
    )]
    Fenced { partition: Partition, epoch: Epoch },
    /// Too much is committed but not yet flushed; try again soon.
    #[error(
        "STF-2008",
        "{unflushed} bytes wait to be flushed, the limit is {limit}; try again soon"
    )]
    Throttled { unflushed: u64, limit: u64 },
    /// Something is over its limit.
    #[error("STF-2009", "{what} has {bytes} bytes, the limit is {limit}")]
    TooLarge {
        what: &'static str,
        bytes: usize,
        limit: usize,
    },
    /// The commit may or may not have happened.
    #[error(
        "STF-2010",
        "the commit in partition {partition} may or may not have happened; read it again"
    )]
    OutcomeUnknown { partition: Partition },
    /// The snapshot was held for too long.
    #[error(
        "STF-2011",
        "the snapshot of partition {partition} was held for too long; take a new one"
    )]
    SnapshotExpired { partition: Partition },
    /// The store or engine has been closed.
    #[error("STF-2012", "the store is closed")]
    Closed,
    /// A live owner has the partition.
    #[error(
        "STF-2013",
        "partition {partition} is held by node {}; wait until its lease ends",
        owner.node
    )]
    Held { partition: Partition, owner: Owner },
    /// The operating system refused an operation on a file.
    #[error("STF-2014", "could not {doing} {}", path.display())]
    Io { path: PathBuf, doing: &'static str },
    /// Entries that were acknowledged are gone from the engine.
    #[error(
        "STF-2016",
        "acknowledged entries of partition {partition} are gone: {what}"
    )]
    Lost { partition: Partition, what: String },
    /// The staged writes that the transaction was based on were rolled back.
    #[error(
        "STF-2017",
        "staged writes of partition {partition} were taken back; read again and retry"
    )]
    RolledBack { partition: Partition },
    /// A trim goes behind the end of its stream.
    #[error(
        "STF-2018",
        "stream {} ends before event {first}; trim up to its end at most",
        stream.0
    )]
    TrimPastEnd { stream: StreamId, first: Sequence },
    /// The node's lease has ended; another node may own the partition.
    #[error(
        "STF-2019",
        "this node's lease has ended, so partition {partition} may have another owner; try again soon"
    )]
    LeaseEnded { partition: Partition },
    /// Another process of the same node id holds its lease.
    #[error(
        "STF-2022",
        "another process is node {node}, and its lease has not ended; stop one of them"
    )]
    LeaseHeld { node: u32 },
    /// Writers were so far ahead that the backup gave up.
    #[error(
        "STF-2058",
        "{waiting} committed bytes wait for the backup, the limit is {limit}; use a faster disk or a quieter time"
    )]
    BackupOverrun { waiting: usize, limit: usize },
    /// It is not known which tables the partition has.
    #[error(
        "STF-2059",
        "partition {partition} was flushed by a version that kept no list of its tables; back its folder up once while it is stopped"
    )]
    TablesUnknown { partition: Partition },
    /// The target of a migration or restore is not empty.
    #[error("STF-2060", "{place} is not empty: {what}; use an empty one")]
    NotEmpty { place: String, what: String },
    /// No server answers that takes writes.
    #[error(
        "STF-2032",
        "no PostgreSQL server takes writes ({what}); check the addresses and the primary"
    )]
    Unreachable { what: String },
    /// What the database holds for a partition fails its check.
    #[error(
        "STF-2035",
        "the database holds damaged data for partition {partition}: {what}; \
         promote another replica or restore"
    )]
    Damaged { partition: Partition, what: String },
    /// The answer of the database was lost.
    #[error(
        "STF-2039",
        "the database's answer was lost, so it is unknown whether it did {doing}; \
         read again and retry"
    )]
    Interrupted { doing: &'static str },
    /// A failure that only the engine, or a backup, knows.
    #[error(_, _0)]
    Specific(SpecificError),
}

/// A kind of failure that only one engine, or a backup, knows. Layers in between pass it on
/// and show it; code that knows the type reads it by [`Error::specific`].
pub trait SpecificKind: Any + fmt::Debug + fmt::Display + Send + Sync {
    /// The stable code, the name of its page in `docs/errors/`.
    fn code(&self) -> Code;
}

/// A [`SpecificKind`] of any type.
#[derive(Clone, Debug)]
pub struct SpecificError(Arc<dyn SpecificKind>);

impl fmt::Display for SpecificError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PartialEq for SpecificError {
    fn eq(&self, other: &Self) -> bool {
        self.0.code() == other.0.code() && self.to_string() == other.to_string()
    }
}

impl Eq for SpecificError {}

impl<K: SpecificKind> From<K> for ErrorKind {
    fn from(kind: K) -> Self {
        Self::Specific(SpecificError(Arc::new(kind)))
    }
}

impl ErrorKind {
    /// The stable code, the name of its page in `docs/errors/`.
    pub fn code(&self) -> Code {
        match self {
            Self::Specific(kind) => kind.0.code(),
            kind => kind.own_code().expect("every other kind has a code"),
        }
    }
}

impl Error {
    /// An error without a cause underneath.
    pub fn new(kind: impl Into<ErrorKind>) -> Self {
        Self {
            kind: kind.into(),
            source: None,
        }
    }

    /// An error caused by another.
    pub fn caused(
        kind: impl Into<ErrorKind>,
        source: impl StdError + Send + Sync + 'static,
    ) -> Self {
        Self {
            kind: kind.into(),
            source: Some(Arc::new(source)),
        }
    }

    /// Maps a failed file operation to an error kind.
    pub fn io(path: &Path, doing: &'static str, source: io::Error) -> Self {
        let path = path.to_path_buf();
        let kind = match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                ErrorKind::DiskFull { path }
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                ErrorKind::NotWritable { path }
            }
            _ => ErrorKind::Io { path, doing },
        };
        Self::caused(kind, source)
    }

    /// Damage found in a file.
    pub fn corrupt(file: &Path, offset: u64, what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt {
            file: file.to_path_buf(),
            offset,
            what: what.into(),
        })
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// The kind of failure of one engine, or of a backup, if it is one of this type.
    pub fn specific<K: SpecificKind>(&self) -> Option<&K> {
        let ErrorKind::Specific(SpecificError(kind)) = &self.kind else {
            return None;
        };
        let kind: &dyn Any = &**kind;
        kind.downcast_ref()
    }

    /// The stable code, the name of its page in `docs/errors/`.
    pub fn code(&self) -> Code {
        self.kind.code()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code(), self.kind)?;
        match &self.source {
            Some(source) => write!(f, " ({source})"),
            None => Ok(()),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.source {
            Some(source) => Some(source.as_ref()),
            None => None,
        }
    }
}

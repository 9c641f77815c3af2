//! What can go wrong with stored state.
//!
//! Every kind has a stable code and a page in `docs/errors/`. Errors are cheap to
//! clone, because one failed group answers many callers.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use steadfast_core::error::Code;
use steadfast_core::id::{Epoch, Owner, Partition, Sequence, StreamId};

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// An error: what happened, to what, and its cause.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// The kinds of failure; each has its own code.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Another process has the data folder open.
    FolderInUse {
        path: PathBuf,
        /// The id of that process, if the system lists it.
        holder: Option<u32>,
    },
    /// The data folder was written by a newer version.
    NewerFormat {
        path: PathBuf,
        found: u32,
        known: u32,
    },
    /// Stored bytes are damaged where they must not be.
    Corrupt {
        file: PathBuf,
        offset: u64,
        what: String,
    },
    /// The disk has no room for the write; nothing was written.
    DiskFull { path: PathBuf },
    /// The folder or a file in it cannot be written.
    NotWritable { path: PathBuf },
    /// A write or sync of the log failed; it takes no more writes.
    LogStopped { path: PathBuf },
    /// Another owner has taken the partition.
    Fenced { partition: Partition, epoch: Epoch },
    /// Too much is committed but not yet flushed; try again soon.
    Throttled { unflushed: u64, limit: u64 },
    /// Something is over its limit.
    TooLarge {
        what: &'static str,
        bytes: usize,
        limit: usize,
    },
    /// The commit may or may not have happened.
    OutcomeUnknown { partition: Partition },
    /// The snapshot was held for too long.
    SnapshotExpired { partition: Partition },
    /// The store or engine has been closed.
    Closed,
    /// A live owner has the partition.
    Held { partition: Partition, owner: Owner },
    /// The operating system refused an operation on a file.
    Io { path: PathBuf, doing: &'static str },
    /// The path is a file, or a folder that Steadfast did not write.
    ForeignFolder { path: PathBuf },
    /// Entries that were acknowledged are gone from the engine.
    Lost { partition: Partition, what: String },
    /// The staged writes that the transaction was based on were rolled back.
    RolledBack { partition: Partition },
    /// A trim goes behind the end of its stream.
    TrimPastEnd { stream: StreamId, first: Sequence },
    /// The node's lease has ended; another node may own the partition.
    LeaseEnded { partition: Partition },
    /// Another process of the same node id holds its lease.
    LeaseHeld { node: u32 },
    /// Events are published in a space that is mirrored.
    NotMirrored { partition: Partition },
    /// Too few holders of a volatile partition have answered.
    ReplicasUnavailable { partition: Partition },
    /// Another backup of this store, or to this folder, is under way.
    BackupInProgress { path: PathBuf },
    /// There is no full backup that could be built on.
    MissingFullBackup { path: PathBuf, why: String },
    /// Backups do not follow one another.
    BrokenChain { path: PathBuf, what: String },
    /// A file of a backup is missing, altered or cut off.
    DamagedBackup { file: PathBuf, what: String },
    /// The backup was written by a newer version.
    NewerBackup {
        path: PathBuf,
        found: u32,
        known: u32,
    },
    /// The key of a sealed backup is missing or another one.
    BackupKey { path: PathBuf, what: String },
    /// A file of a sealed backup is not what was sealed.
    AlteredBackup { file: PathBuf, what: String },
    /// The existing state is not older than the backup.
    NotNewer { path: PathBuf, what: String },
    /// A restore into a folder without state was begun and not finished.
    RestoreUnfinished { path: PathBuf },
    /// What was restored is not what was backed up.
    RestoreDiffers { partition: Partition, what: String },
    /// Writers were so far ahead that the backup gave up.
    BackupOverrun { waiting: usize, limit: usize },
    /// It is not known which tables the partition has.
    TablesUnknown { partition: Partition },
    /// The target of a migration or restore is not empty.
    NotEmpty { place: String, what: String },
    /// A node, or another command, has a lease on the database.
    DatabaseInUse { node: u32 },
    /// The database is set up so that acknowledged writes could be lost.
    UnsafeStorage { what: String },
    /// The database rejects the login, or a right is missing.
    AccessDenied { host: String },
    /// No server answers that takes writes.
    Unreachable { what: String },
    /// The schema was made by a newer version.
    NewerSchema { found: u32, known: u32 },
    /// The database belongs to another cluster.
    ForeignCluster { found: String, expected: String },
    /// What the database holds for a partition fails its check.
    Damaged { partition: Partition, what: String },
    /// The database refused a statement that it should accept.
    Database { doing: &'static str },
    /// The address of the database cannot be used.
    BadAddress { what: String },
    /// The database is out of room or connections; nothing was written.
    DatabaseFull { doing: &'static str },
    /// The answer of the database was lost.
    Interrupted { doing: &'static str },
    /// The address names fewer databases than the cluster is spread over.
    ShardMissing { shards: usize, given: usize },
    /// The databases are not named in their order.
    ShardOrder { place: usize, belongs: usize },
    /// A database is not the one that belongs there.
    ForeignShard { place: usize, what: String },
    /// The address names more databases than the cluster is spread over.
    ShardSurplus { shards: usize, given: usize },
    /// The partition was moved to another database.
    PartitionMoved { partition: Partition },
    /// Several databases cannot be read at one moment.
    NoCommonMoment { databases: usize },
    /// A move names a database or a partition that is not there.
    BadMove { what: String },
}

impl Error {
    /// An error without a cause underneath.
    pub fn new(kind: ErrorKind) -> Self {
        Self { kind, source: None }
    }

    /// An error caused by another.
    pub fn caused(kind: ErrorKind, source: impl StdError + Send + Sync + 'static) -> Self {
        Self {
            kind,
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

    /// The stable code, the name of its page in `docs/errors/`.
    pub fn code(&self) -> Code {
        Code(match self.kind {
            ErrorKind::FolderInUse { .. } => "STF-2001",
            ErrorKind::NewerFormat { .. } => "STF-2002",
            ErrorKind::Corrupt { .. } => "STF-2003",
            ErrorKind::DiskFull { .. } => "STF-2004",
            ErrorKind::NotWritable { .. } => "STF-2005",
            ErrorKind::LogStopped { .. } => "STF-2006",
            ErrorKind::Fenced { .. } => "STF-2007",
            ErrorKind::Throttled { .. } => "STF-2008",
            ErrorKind::TooLarge { .. } => "STF-2009",
            ErrorKind::OutcomeUnknown { .. } => "STF-2010",
            ErrorKind::SnapshotExpired { .. } => "STF-2011",
            ErrorKind::Closed => "STF-2012",
            ErrorKind::Held { .. } => "STF-2013",
            ErrorKind::Io { .. } => "STF-2014",
            ErrorKind::ForeignFolder { .. } => "STF-2015",
            ErrorKind::Lost { .. } => "STF-2016",
            ErrorKind::RolledBack { .. } => "STF-2017",
            ErrorKind::TrimPastEnd { .. } => "STF-2018",
            ErrorKind::LeaseEnded { .. } => "STF-2019",
            ErrorKind::LeaseHeld { .. } => "STF-2022",
            ErrorKind::NotMirrored { .. } => "STF-2020",
            ErrorKind::ReplicasUnavailable { .. } => "STF-2021",
            ErrorKind::BackupInProgress { .. } => "STF-2050",
            ErrorKind::MissingFullBackup { .. } => "STF-2051",
            ErrorKind::BrokenChain { .. } => "STF-2052",
            ErrorKind::DamagedBackup { .. } => "STF-2053",
            ErrorKind::NewerBackup { .. } => "STF-2054",
            ErrorKind::NotNewer { .. } => "STF-2055",
            ErrorKind::RestoreUnfinished { .. } => "STF-2056",
            ErrorKind::RestoreDiffers { .. } => "STF-2057",
            ErrorKind::BackupOverrun { .. } => "STF-2058",
            ErrorKind::TablesUnknown { .. } => "STF-2059",
            ErrorKind::NotEmpty { .. } => "STF-2060",
            ErrorKind::DatabaseInUse { .. } => "STF-2061",
            ErrorKind::BackupKey { .. } => "STF-2062",
            ErrorKind::AlteredBackup { .. } => "STF-2063",
            ErrorKind::UnsafeStorage { .. } => "STF-2030",
            ErrorKind::AccessDenied { .. } => "STF-2031",
            ErrorKind::Unreachable { .. } => "STF-2032",
            ErrorKind::NewerSchema { .. } => "STF-2033",
            ErrorKind::ForeignCluster { .. } => "STF-2034",
            ErrorKind::Damaged { .. } => "STF-2035",
            ErrorKind::Database { .. } => "STF-2036",
            ErrorKind::BadAddress { .. } => "STF-2037",
            ErrorKind::DatabaseFull { .. } => "STF-2038",
            ErrorKind::Interrupted { .. } => "STF-2039",
            ErrorKind::ShardMissing { .. } => "STF-7050",
            ErrorKind::ShardOrder { .. } => "STF-7051",
            ErrorKind::ForeignShard { .. } => "STF-7052",
            ErrorKind::ShardSurplus { .. } => "STF-7053",
            ErrorKind::PartitionMoved { .. } => "STF-7054",
            ErrorKind::BadMove { .. } => "STF-7055",
            ErrorKind::NoCommonMoment { .. } => "STF-7056",
        })
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

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FolderInUse { path, holder } => {
                write!(f, "{} is open in ", path.display())?;
                match holder {
                    Some(holder) => write!(f, "process {holder}")?,
                    None => f.write_str("another process")?,
                }
                f.write_str("; stop that process or use another folder")
            }
            Self::NewerFormat { path, found, known } => write!(
                f,
                "{} has format {found}, this version knows up to {known}; use a newer steadfast",
                path.display()
            ),
            Self::Corrupt { file, offset, what } => write!(
                f,
                "{} is damaged at byte {offset}: {what}; restore from a backup",
                file.display()
            ),
            Self::DiskFull { path } => write!(
                f,
                "no room left for {}; nothing was written, free some space and try again",
                path.display()
            ),
            Self::NotWritable { path } => write!(
                f,
                "{} cannot be written; check its owner, its mode and its mount",
                path.display()
            ),
            Self::LogStopped { path } => write!(
                f,
                "writing {} failed, so no more writes are taken; check the disk, then restart",
                path.display()
            ),
            Self::Fenced { partition, epoch } => write!(
                f,
                "partition {partition} has another owner since epoch {epoch}; ask that owner"
            ),
            Self::Throttled { unflushed, limit } => write!(
                f,
                "{unflushed} bytes wait to be flushed, the limit is {limit}; try again soon"
            ),
            Self::TooLarge { what, bytes, limit } => {
                write!(f, "{what} has {bytes} bytes, the limit is {limit}")
            }
            Self::OutcomeUnknown { partition } => write!(
                f,
                "the commit in partition {partition} may or may not have happened; read it again"
            ),
            Self::SnapshotExpired { partition } => write!(
                f,
                "the snapshot of partition {partition} was held for too long; take a new one"
            ),
            Self::Closed => f.write_str("the store is closed"),
            Self::Held { partition, owner } => write!(
                f,
                "partition {partition} is held by node {}; wait until its lease ends",
                owner.node
            ),
            Self::Io { path, doing } => write!(f, "could not {doing} {}", path.display()),
            Self::ForeignFolder { path } => write!(
                f,
                "{} is not a data folder of Steadfast; name one, or for a new server an empty or \
                 new folder",
                path.display()
            ),
            Self::Lost { partition, what } => write!(
                f,
                "acknowledged entries of partition {partition} are gone: {what}"
            ),
            Self::RolledBack { partition } => write!(
                f,
                "staged writes of partition {partition} were taken back; read again and retry"
            ),
            Self::TrimPastEnd { stream, first } => write!(
                f,
                "stream {} ends before event {first}; trim up to its end at most",
                stream.0
            ),
            Self::NotMirrored { partition } => write!(
                f,
                "partition {partition} is copied to other nodes or regions, and events are not; keep them in another space"
            ),
            Self::ReplicasUnavailable { partition } => write!(
                f,
                "too few nodes that hold copies of partition {partition} have answered; try again soon"
            ),
            Self::LeaseEnded { partition } => write!(
                f,
                "this node's lease has ended, so partition {partition} may have another owner; try again soon"
            ),
            Self::LeaseHeld { node } => write!(
                f,
                "another process is node {node}, and its lease has not ended; stop one of them"
            ),
            Self::BackupInProgress { path } => write!(
                f,
                "a backup to {} is under way; wait until it is done",
                path.display()
            ),
            Self::MissingFullBackup { path, why } => write!(
                f,
                "{} has no full backup to build on: {why}; take a full one",
                path.display()
            ),
            Self::BrokenChain { path, what } => write!(
                f,
                "the chain of {} is broken: {what}; bring the backup back or use another one",
                path.display()
            ),
            Self::DamagedBackup { file, what } => write!(
                f,
                "{} is damaged: {what}; use another copy or an earlier backup",
                file.display()
            ),
            Self::NewerBackup { path, found, known } => write!(
                f,
                "{} has format {found}, this version knows up to {known}; use a newer steadfast",
                path.display()
            ),
            Self::BackupKey { path, what } => write!(f, "{}: {what}", path.display()),
            Self::AlteredBackup { file, what } => write!(
                f,
                "{} was altered after the backup was sealed: {what}; use another copy or an earlier backup",
                file.display()
            ),
            Self::NotNewer { path, what } => write!(
                f,
                "{} has state that the backup would not bring forward: {what}; use an empty folder, or force it",
                path.display()
            ),
            Self::RestoreUnfinished { path } => write!(
                f,
                "a restore into {} was not finished, and there is no state from before it; run it again",
                path.display()
            ),
            Self::RestoreDiffers { partition, what } => write!(
                f,
                "partition {partition} does not come back as it was: {what}; check the disk and restore again"
            ),
            Self::BackupOverrun { waiting, limit } => write!(
                f,
                "{waiting} committed bytes wait for the backup, the limit is {limit}; use a faster disk or a quieter time"
            ),
            Self::TablesUnknown { partition } => write!(
                f,
                "partition {partition} was flushed by a version that kept no list of its tables; back its folder up once while it is stopped"
            ),
            Self::NotEmpty { place, what } => {
                write!(f, "{place} is not empty: {what}; use an empty one")
            }
            Self::DatabaseInUse { node: u32::MAX } => f.write_str(
                "another backup or migration uses the database; \
                 wait until it is done, or half a minute if it was killed",
            ),
            Self::DatabaseInUse { node } => write!(
                f,
                "node {node} uses the database; stop all nodes, and wait until their leases end"
            ),
            Self::UnsafeStorage { what } => write!(
                f,
                "the database would not keep what it acknowledges: {what}; correct its settings"
            ),
            Self::AccessDenied { host } => write!(
                f,
                "{host} does not let us in; check user, password and rights in the address"
            ),
            Self::Unreachable { what } => write!(
                f,
                "no PostgreSQL server takes writes ({what}); check the addresses and the primary"
            ),
            Self::NewerSchema { found, known } => write!(
                f,
                "the schema needs version {found}, this version knows up to {known}; \
                 use a newer steadfast"
            ),
            Self::ForeignCluster { found, expected } => write!(
                f,
                "the database belongs to cluster {found}, not {expected}; correct the address"
            ),
            Self::Damaged { partition, what } => write!(
                f,
                "the database holds damaged data for partition {partition}: {what}; \
                 promote another replica or restore"
            ),
            Self::Database { doing } => {
                write!(f, "the database refused to {doing}; look into its log")
            }
            Self::BadAddress { what } => write!(
                f,
                "the address of the database cannot be used: {what}; \
                 write postgres://user:password@host1,host2,host3/database"
            ),
            Self::DatabaseFull { doing } => write!(
                f,
                "the database has no room or connection left to {doing}; \
                 nothing was written, give it more and try again"
            ),
            Self::Interrupted { doing } => write!(
                f,
                "the database's answer was lost, so it is unknown whether it did {doing}; \
                 read again and retry"
            ),
            Self::ShardMissing { shards, given } => write!(
                f,
                "the state is spread over {shards} databases, and the address names {given}; \
                 name all of them, in their order"
            ),
            Self::ShardOrder { place, belongs } => write!(
                f,
                "the database at place {place} of the address belongs to place {belongs}; \
                 name all of them, in their order"
            ),
            Self::ForeignShard { place, what } => write!(
                f,
                "the database at place {place} of the address does not belong there: {what}; \
                 correct the address"
            ),
            Self::ShardSurplus { shards, given } => write!(
                f,
                "the state is spread over {shards} databases, and the address names {given}; \
                 new ones join by `steadfast cluster move-shard`"
            ),
            Self::PartitionMoved { partition } => write!(
                f,
                "partition {partition} was moved to another database; \
                 end the move if it was interrupted, and restart this node"
            ),
            Self::NoCommonMoment { databases } => write!(
                f,
                "{databases} databases cannot be read at one moment while nodes write; \
                 stop all nodes and use `steadfast store backup --data`"
            ),
            Self::BadMove { what } => write!(f, "nothing can be moved: {what}"),
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

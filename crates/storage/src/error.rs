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
    /// Another process has the data folder open.
    #[error("STF-2001", folder_in_use(path, *holder))]
    FolderInUse {
        path: PathBuf,
        /// The id of that process, if the system lists it.
        holder: Option<u32>,
    },
    /// The data folder was written by a newer version.
    #[error(
        "STF-2002",
        "{} has format {found}, this version knows up to {known}; use a newer steadfast",
        path.display()
    )]
    NewerFormat {
        path: PathBuf,
        found: u32,
        known: u32,
    },
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
    /// The path is a file, or a folder that Steadfast did not write.
    #[error(
        "STF-2015",
        "{} is not a data folder of Steadfast; name one, or for a new server an empty or \
         new folder",
        path.display()
    )]
    ForeignFolder { path: PathBuf },
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
    /// Events are published in a space that is mirrored.
    #[error(
        "STF-2020",
        "partition {partition} is copied to other nodes or regions, and events are not; keep them in another space"
    )]
    NotMirrored { partition: Partition },
    /// Too few holders of a volatile partition have answered.
    #[error(
        "STF-2021",
        "too few nodes that hold copies of partition {partition} have answered; try again soon"
    )]
    ReplicasUnavailable { partition: Partition },
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
    /// A restore into a folder without state was begun and not finished.
    #[error(
        "STF-2056",
        "a restore into {} was not finished, and there is no state from before it; run it again",
        path.display()
    )]
    RestoreUnfinished { path: PathBuf },
    /// What was restored is not what was backed up.
    #[error(
        "STF-2057",
        "partition {partition} does not come back as it was: {what}; check the disk and restore again"
    )]
    RestoreDiffers { partition: Partition, what: String },
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
    /// A node, or another command, has a lease on the database.
    #[error("STF-2061", database_in_use(*node))]
    DatabaseInUse { node: u32 },
    /// The database is set up so that acknowledged writes could be lost.
    #[error(
        "STF-2030",
        "the database would not keep what it acknowledges: {what}; correct its settings"
    )]
    UnsafeStorage { what: String },
    /// The database rejects the login, or a right is missing.
    #[error(
        "STF-2031",
        "{host} does not let us in; check user, password and rights in the address"
    )]
    AccessDenied { host: String },
    /// No server answers that takes writes.
    #[error(
        "STF-2032",
        "no PostgreSQL server takes writes ({what}); check the addresses and the primary"
    )]
    Unreachable { what: String },
    /// The schema was made by a newer version.
    #[error(
        "STF-2033",
        "the schema needs version {found}, this version knows up to {known}; \
         use a newer steadfast"
    )]
    NewerSchema { found: u32, known: u32 },
    /// The database belongs to another cluster.
    #[error(
        "STF-2034",
        "the database belongs to cluster {found}, not {expected}; correct the address"
    )]
    ForeignCluster { found: String, expected: String },
    /// What the database holds for a partition fails its check.
    #[error(
        "STF-2035",
        "the database holds damaged data for partition {partition}: {what}; \
         promote another replica or restore"
    )]
    Damaged { partition: Partition, what: String },
    /// The database refused a statement that it should accept.
    #[error("STF-2036", "the database refused to {doing}; look into its log")]
    Database { doing: &'static str },
    /// The address of the database cannot be used.
    #[error(
        "STF-2037",
        "the address of the database cannot be used: {what}; \
         write postgres://user:password@host1,host2,host3/database"
    )]
    BadAddress { what: String },
    /// The database is out of room or connections; nothing was written.
    #[error(
        "STF-2038",
        "the database has no room or connection left to {doing}; \
         nothing was written, give it more and try again"
    )]
    DatabaseFull { doing: &'static str },
    /// The answer of the database was lost.
    #[error(
        "STF-2039",
        "the database's answer was lost, so it is unknown whether it did {doing}; \
         read again and retry"
    )]
    Interrupted { doing: &'static str },
    /// The address names fewer databases than the cluster is spread over.
    #[error(
        "STF-7050",
        "the state is spread over {shards} databases, and the address names {given}; \
         name all of them, in their order"
    )]
    ShardMissing { shards: usize, given: usize },
    /// The databases are not named in their order.
    #[error(
        "STF-7051",
        "the database at place {place} of the address belongs to place {belongs}; \
         name all of them, in their order"
    )]
    ShardOrder { place: usize, belongs: usize },
    /// A database is not the one that belongs there.
    #[error(
        "STF-7052",
        "the database at place {place} of the address does not belong there: {what}; \
         correct the address"
    )]
    ForeignShard { place: usize, what: String },
    /// The address names more databases than the cluster is spread over.
    #[error(
        "STF-7053",
        "the state is spread over {shards} databases, and the address names {given}; \
         new ones join by `steadfast cluster move-shard`"
    )]
    ShardSurplus { shards: usize, given: usize },
    /// The partition was moved to another database.
    #[error(
        "STF-7054",
        "partition {partition} was moved to another database; \
         end the move if it was interrupted, and restart this node"
    )]
    PartitionMoved { partition: Partition },
    /// Several databases cannot be read at one moment.
    #[error(
        "STF-7056",
        "{databases} databases cannot be read at one moment while nodes write; \
         stop all nodes and use `steadfast store backup --data`"
    )]
    NoCommonMoment { databases: usize },
    /// A move names a database or a partition that is not there.
    #[error("STF-7055", "nothing can be moved: {what}")]
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

fn folder_in_use(path: &Path, holder: Option<u32>) -> String {
    let holder = match holder {
        Some(holder) => format!("process {holder}"),
        None => "another process".to_owned(),
    };
    let path = path.display();
    format!("{path} is open in {holder}; stop that process or use another folder")
}

fn database_in_use(node: u32) -> String {
    if node == u32::MAX {
        "another backup or migration uses the database; \
         wait until it is done, or half a minute if it was killed"
            .to_owned()
    } else {
        format!("node {node} uses the database; stop all nodes, and wait until their leases end")
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

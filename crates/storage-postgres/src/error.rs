//! What can go wrong with a database.

use steadfast_core::error::Code;
use steadfast_core::id::Partition;
use steadfast_macros::ErrorKind;
use steadfast_storage::{Error, SpecificKind};

/// The kinds of failure that only databases have; each has its own code.
#[derive(Clone, Debug, PartialEq, Eq, ErrorKind)]
#[non_exhaustive]
pub enum ErrorKind {
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

impl SpecificKind for ErrorKind {
    fn code(&self) -> Code {
        self.code()
    }
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

/// Whether the database is set up so that acknowledged writes could be lost.
pub(crate) fn is_unsafe(error: &Error) -> bool {
    matches!(error.specific(), Some(ErrorKind::UnsafeStorage { .. }))
}

//! Errors of collections.
//!
//! Every kind has a stable code and a page in `docs/errors/`. [`Error::retry`]
//! says whether a new transaction may succeed where this one failed. Errors are
//! cheap to clone.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use steadfast_core::clock::Timestamp;
use steadfast_core::error::Code;
use steadfast_core::id::{Owner, Partition};
use steadfast_storage::ErrorKind as Stored;

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// An error: its kind and its cause.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// The kinds of failure; each has its own code.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A lock was not granted in time.
    LockTimeout {
        /// The locked resource.
        lock: String,
        /// The transaction that holds the lock.
        holder: u64,
        /// When the lock was granted.
        since: Timestamp,
    },
    /// Transactions waited for one another, and this one is the youngest of them.
    Deadlock {
        /// The lock that it waited for.
        lock: String,
        /// The other transactions of the cycle.
        with: Vec<u64>,
    },
    /// A write on a replica that does not own its partition.
    NotPrimary {
        partition: Partition,
        /// The owner, if known.
        hint: Option<Owner>,
    },
    /// The replica cannot answer this read now, or not in this way.
    NotReadable { what: String },
    /// The transaction was ended by the system.
    TransactionFaulted { transaction: u64, why: &'static str },
    /// The transaction was ended by its user.
    TransactionClosed { transaction: u64 },
    /// `add` of a key that exists.
    KeyExists { collection: String },
    /// The collection does not exist, or was removed.
    NotFound { collection: String },
    /// The collection has another kind, or other types.
    TypeMismatch {
        collection: String,
        found: String,
        asked: String,
    },
    /// A time-out below zero.
    InvalidTimeout { millis: i64 },
    /// The replica was closed.
    Closed,
    /// A limit is exceeded.
    TooLarge {
        what: &'static str,
        bytes: usize,
        limit: usize,
    },
    /// Too much is committed but not yet flushed.
    Throttled,
    /// The commit may or may not have happened.
    OutcomeUnknown { transaction: u64 },
    /// The collection is being created by another transaction.
    NotVisible { collection: String },
    /// This kind of service does not support the feature.
    Unsupported { what: String },
    /// The storage underneath failed; the cause says how.
    Storage,
    /// Stored bytes do not decode as their type.
    Malformed { what: String },
    /// A transaction of another partition.
    ForeignTransaction {
        transaction: u64,
        collection: String,
    },
    /// A partition scheme or service is invalid, or a key is outside its scheme.
    InvalidService { service: String, why: String },
    /// A position before the first or after the last event of a log.
    OutOfRange { collection: String, position: u64 },
    /// An invalid name of a collection.
    InvalidName { name: String },
    /// A key or value does not fit its type or limit; the cause says how.
    Schema { collection: String },
    /// The receiver of a command in the transaction rejected it.
    CommandRejected { code: Code, message: String },
}

/// Whether and when a caller may retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAdvice {
    /// Do not retry: it would fail again.
    No,
    /// Retry in a new transaction, at once.
    Now,
    /// Retry in a new transaction, after a pause.
    Later,
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

    /// Maps an error of the storage to the kind that helps its reader.
    pub(crate) fn storage(error: steadfast_storage::Error, transaction: u64) -> Self {
        let kind = match error.kind() {
            Stored::Fenced { partition, .. } => ErrorKind::NotPrimary {
                partition: *partition,
                hint: None,
            },
            Stored::LeaseEnded { partition } => ErrorKind::NotPrimary {
                partition: *partition,
                hint: None,
            },
            Stored::Held { partition, owner } => ErrorKind::NotPrimary {
                partition: *partition,
                hint: Some(*owner),
            },
            Stored::Throttled { .. } => ErrorKind::Throttled,
            Stored::TooLarge { what, bytes, limit } => ErrorKind::TooLarge {
                what,
                bytes: *bytes,
                limit: *limit,
            },
            Stored::OutcomeUnknown { .. } => ErrorKind::OutcomeUnknown { transaction },
            Stored::SnapshotExpired { .. } => ErrorKind::TransactionFaulted {
                transaction,
                why: "its snapshot was held for too long",
            },
            Stored::RolledBack { .. } => ErrorKind::TransactionFaulted {
                transaction,
                why: "its writes were taken back",
            },
            Stored::Closed => ErrorKind::Closed,
            _ => ErrorKind::Storage,
        };
        Self::caused(kind, error)
    }

    /// A key or value that its type refuses.
    pub(crate) fn schema(error: crate::schema::error::Error, collection: &str) -> Self {
        let kind = match error.kind() {
            crate::schema::error::ErrorKind::TooLarge { what, bytes, limit } => {
                ErrorKind::TooLarge {
                    what,
                    bytes: *bytes,
                    limit: *limit,
                }
            }
            _ => ErrorKind::Schema {
                collection: collection.to_owned(),
            },
        };
        Self::caused(kind, error)
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// Whether a retry can succeed.
    pub fn retry(&self) -> RetryAdvice {
        match self.kind {
            ErrorKind::TransactionFaulted { .. } => RetryAdvice::Now,
            ErrorKind::LockTimeout { .. }
            | ErrorKind::Deadlock { .. }
            | ErrorKind::NotReadable { .. }
            | ErrorKind::Throttled
            | ErrorKind::NotVisible { .. } => RetryAdvice::Later,
            _ => RetryAdvice::No,
        }
    }

    /// The stable code, the name of its page in `docs/errors/`.
    pub fn code(&self) -> Code {
        Code(match self.kind {
            ErrorKind::CommandRejected { code, .. } => code.0,
            ErrorKind::LockTimeout { .. } => "STF-3001",
            ErrorKind::NotPrimary { .. } => "STF-3002",
            ErrorKind::NotReadable { .. } => "STF-3003",
            ErrorKind::TransactionFaulted { .. } => "STF-3004",
            ErrorKind::TransactionClosed { .. } => "STF-3005",
            ErrorKind::KeyExists { .. } => "STF-3006",
            ErrorKind::NotFound { .. } => "STF-3007",
            ErrorKind::TypeMismatch { .. } => "STF-3008",
            ErrorKind::InvalidTimeout { .. } => "STF-3009",
            ErrorKind::Closed => "STF-3010",
            ErrorKind::TooLarge { .. } => "STF-3011",
            ErrorKind::Throttled => "STF-3012",
            ErrorKind::OutcomeUnknown { .. } => "STF-3013",
            ErrorKind::NotVisible { .. } => "STF-3014",
            ErrorKind::Unsupported { .. } => "STF-3015",
            ErrorKind::Storage => "STF-3016",
            ErrorKind::Malformed { .. } => "STF-3017",
            ErrorKind::ForeignTransaction { .. } => "STF-3018",
            ErrorKind::InvalidService { .. } => "STF-3019",
            ErrorKind::OutOfRange { .. } => "STF-3020",
            ErrorKind::InvalidName { .. } => "STF-3021",
            ErrorKind::Schema { .. } => "STF-3022",
            ErrorKind::Deadlock { .. } => "STF-3023",
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code(), self.kind)?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LockTimeout {
                lock,
                holder,
                since,
            } => write!(
                f,
                "{lock} is locked by transaction {holder} since {since}; \
                 pause and try again in a new transaction"
            ),
            Self::Deadlock { lock, with } => {
                let with: Vec<_> = with.iter().map(u64::to_string).collect();
                write!(
                    f,
                    "waiting for {lock} would never end: this transaction and {} wait for one \
                     another, and this one is the youngest; try again in a new transaction",
                    with.join(", ")
                )
            }
            Self::NotPrimary { partition, hint } => {
                write!(f, "partition {partition} is not owned here; ")?;
                match hint {
                    Some(owner) => write!(f, "ask node {}", owner.node),
                    None => f.write_str("find its owner and ask there"),
                }
            }
            Self::NotReadable { what } => {
                write!(f, "{what} cannot be read here now; try again later")
            }
            Self::TransactionFaulted { transaction, why } => write!(
                f,
                "transaction {transaction} was ended: {why}; try again in a new one"
            ),
            Self::TransactionClosed { transaction } => {
                write!(f, "transaction {transaction} has ended; begin a new one")
            }
            Self::KeyExists { collection } => write!(
                f,
                "the key is already in {collection}; use `set` to replace its value"
            ),
            Self::NotFound { collection } => {
                write!(f, "there is no collection {collection}; create it first")
            }
            Self::TypeMismatch {
                collection,
                found,
                asked,
            } => write!(
                f,
                "{collection} is a {found}, not a {asked}; open it as what it is"
            ),
            Self::InvalidTimeout { millis } => write!(
                f,
                "{millis} ms is no time-out; use 0 to try once, or -1 to wait without a limit"
            ),
            Self::Closed => f.write_str("the replica is closed; open the partition again"),
            Self::TooLarge { what, bytes, limit } => write!(
                f,
                "{what} has {bytes} bytes, the limit is {limit}; store less at a time"
            ),
            Self::Throttled => f.write_str("too many writes wait to be flushed; try again soon"),
            Self::OutcomeUnknown { transaction } => write!(
                f,
                "transaction {transaction} may or may not have been committed; read again"
            ),
            Self::NotVisible { collection } => write!(
                f,
                "{collection} is being created by another transaction; wait for its commit"
            ),
            Self::Unsupported { what } => write!(f, "{what} is not supported here"),
            Self::CommandRejected { message, .. } => write!(f, "a command was refused: {message}"),
            Self::Storage => f.write_str("the storage failed; see the cause"),
            Self::Malformed { what } => write!(
                f,
                "the stored bytes of {what} do not decode; check its type, or restore a backup"
            ),
            Self::ForeignTransaction {
                transaction,
                collection,
            } => write!(
                f,
                "transaction {transaction} belongs to another partition than {collection}; \
                 begin one there"
            ),
            Self::InvalidService { service, why } => {
                write!(f, "service {service}: {why}")
            }
            Self::OutOfRange {
                collection,
                position,
            } => write!(
                f,
                "position {position} is outside of log {collection}; ask for its bounds"
            ),
            Self::InvalidName { name } => write!(
                f,
                "{name:?} cannot name a collection; use a word or a URI without control characters"
            ),
            Self::Schema { collection } => write!(
                f,
                "a key or value of {collection} cannot be encoded or decoded; see the cause"
            ),
        }
    }
}

impl StdError for Error {
    /// What is below the cause: that one is part of the message.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref()?.source()
    }
}

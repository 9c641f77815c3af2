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
use steadfast_macros::ErrorKind;
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
#[derive(Clone, Debug, PartialEq, Eq, ErrorKind)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A lock was not granted in time.
    #[error(
        "STF-3001",
        "{lock} is locked by transaction {holder} since {since}; \
         pause and try again in a new transaction"
    )]
    LockTimeout {
        /// The locked resource.
        lock: String,
        /// The transaction that holds the lock.
        holder: u64,
        /// When the lock was granted.
        since: Timestamp,
    },
    /// Transactions waited for one another, and this one is the youngest of them.
    #[error(
        "STF-3023",
        "waiting for {lock} would never end: this transaction and {} wait for one \
         another, and this one is the youngest; try again in a new transaction",
        listed(with)
    )]
    Deadlock {
        /// The lock that it waited for.
        lock: String,
        /// The other transactions of the cycle.
        with: Vec<u64>,
    },
    /// A write on a replica that does not own its partition.
    #[error("STF-3002", "partition {partition} is not owned here; {}", next_step(*hint))]
    NotPrimary {
        partition: Partition,
        /// The owner, if known.
        hint: Option<Owner>,
    },
    /// The replica cannot answer this read now, or not in this way.
    #[error("STF-3003", "{what} cannot be read here now; try again later")]
    NotReadable { what: String },
    /// The transaction was ended by the system.
    #[error(
        "STF-3004",
        "transaction {transaction} was ended: {why}; try again in a new one"
    )]
    TransactionFaulted { transaction: u64, why: &'static str },
    /// The transaction was ended by its user.
    #[error("STF-3005", "transaction {transaction} has ended; begin a new one")]
    TransactionClosed { transaction: u64 },
    /// `add` of a key that exists.
    #[error(
        "STF-3006",
        "the key is already in {collection}; use `set` to replace its value"
    )]
    KeyExists { collection: String },
    /// The collection does not exist, or was removed.
    #[error("STF-3007", "there is no collection {collection}; create it first")]
    NotFound { collection: String },
    /// The collection has another kind, or other types.
    #[error(
        "STF-3008",
        "{collection} is a {found}, not a {asked}; open it as what it is"
    )]
    TypeMismatch {
        collection: String,
        found: String,
        asked: String,
    },
    /// A time-out below zero.
    #[error(
        "STF-3009",
        "{millis} ms is no time-out; use 0 to try once, or -1 to wait without a limit"
    )]
    InvalidTimeout { millis: i64 },
    /// The replica was closed.
    #[error("STF-3010", "the replica is closed; open the partition again")]
    Closed,
    /// A limit is exceeded.
    #[error(
        "STF-3011",
        "{what} has {bytes} bytes, the limit is {limit}; store less at a time"
    )]
    TooLarge {
        what: &'static str,
        bytes: usize,
        limit: usize,
    },
    /// Too much is committed but not yet flushed.
    #[error("STF-3012", "too many writes wait to be flushed; try again soon")]
    Throttled,
    /// The commit may or may not have happened.
    #[error(
        "STF-3013",
        "transaction {transaction} may or may not have been committed; read again"
    )]
    OutcomeUnknown { transaction: u64 },
    /// The collection is being created by another transaction.
    #[error(
        "STF-3014",
        "{collection} is being created by another transaction; wait for its commit"
    )]
    NotVisible { collection: String },
    /// This kind of service does not support the feature.
    #[error("STF-3015", "{what} is not supported here")]
    Unsupported { what: String },
    /// The storage underneath failed; the cause says how.
    #[error("STF-3016", "the storage failed; see the cause")]
    Storage,
    /// Stored bytes do not decode as their type.
    #[error(
        "STF-3017",
        "the stored bytes of {what} do not decode; check its type, or restore a backup"
    )]
    Malformed { what: String },
    /// A transaction of another partition.
    #[error(
        "STF-3018",
        "transaction {transaction} belongs to another partition than {collection}; \
         begin one there"
    )]
    ForeignTransaction {
        transaction: u64,
        collection: String,
    },
    /// A partition scheme or service is invalid, or a key is outside its scheme.
    #[error("STF-3019", "service {service}: {why}")]
    InvalidService { service: String, why: String },
    /// A position before the first or after the last event of a log.
    #[error(
        "STF-3020",
        "position {position} is outside of log {collection}; ask for its bounds"
    )]
    OutOfRange { collection: String, position: u64 },
    /// An invalid name of a collection.
    #[error(
        "STF-3021",
        "{name:?} cannot name a collection; use a word or a URI without control characters"
    )]
    InvalidName { name: String },
    /// A key or value does not fit its type or limit; the cause says how.
    #[error(
        "STF-3022",
        "a key or value of {collection} cannot be encoded or decoded; see the cause"
    )]
    Schema { collection: String },
    /// A service rejected a command or message of the transaction.
    #[error(_, "a command or message was refused: {message}")]
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

    /// A message or command that its service refuses, with the code of the service.
    pub fn rejected(code: Code, message: impl Into<String>) -> Self {
        let message = message.into();
        Self::new(ErrorKind::CommandRejected {
            code,
            message: code.strip(&message).to_owned(),
        })
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
            // What was staged beside a group without room is rolled back first, which
            // another attempt may meet.
            ErrorKind::Storage if self.is_disk_full() => RetryAdvice::Later,
            _ => RetryAdvice::No,
        }
    }

    fn is_disk_full(&self) -> bool {
        let source = self.source.as_deref();
        let source = source.and_then(|source| source.downcast_ref::<steadfast_storage::Error>());
        source.is_some_and(|source| matches!(source.kind(), Stored::DiskFull { .. }))
    }

    /// The stable code, the name of its page in `docs/errors/`.
    pub fn code(&self) -> Code {
        match &self.kind {
            ErrorKind::CommandRejected { code, .. } => *code,
            kind => kind.own_code().expect("every other kind has a code"),
        }
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

fn listed(transactions: &[u64]) -> String {
    let texts: Vec<_> = transactions.iter().map(u64::to_string).collect();
    texts.join(", ")
}

/// What the caller of a replica that is no primary does.
fn next_step(owner: Option<Owner>) -> String {
    match owner {
        Some(owner) => format!("ask node {}", owner.node),
        None => "find its owner and ask there".to_owned(),
    }
}

impl StdError for Error {
    /// What is below the cause: that one is part of the message.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref()?.source()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_worth_another_attempt_and_a_broken_one_is_not() {
        let retry = |kind| Error::storage(steadfast_storage::Error::new(kind), 1).retry();
        let path = std::path::PathBuf::from("data");
        let full = Stored::DiskFull { path: path.clone() };
        assert_eq!(retry(full), RetryAdvice::Later);
        assert_eq!(retry(Stored::NotWritable { path }), RetryAdvice::No);
    }
}

//! Errors of event hubs.
//!
//! Every kind has a stable code and a page in `docs/errors/`. A service sends a
//! rejection as code and text; the caller's side restores the kind from the code.

use std::error::Error as StdError;
use std::fmt;

use steadfast_core::error::Code;
use steadfast_macros::ErrorKind;
use steadfast_partition::{Error as PartitionError, ErrorKind as PartitionErrorKind, ServiceError};

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// An error: its kind, a message for the caller, and its cause.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Box<PartitionError>>,
}

/// The kinds of failure; each has its own code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ErrorKind)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no such event hub.
    #[error("STF-5001")]
    HubNotFound,
    /// The event hub has no such consumer group.
    #[error("STF-5002")]
    GroupNotFound,
    /// The event hub has no such partition.
    #[error("STF-5003")]
    PartitionNotFound,
    /// An event hub or group of that name exists, possibly with other settings.
    #[error("STF-5004")]
    Exists,
    /// A name, a number of partitions or the like is not permitted.
    #[error("STF-5005")]
    BadDefinition,
    /// A publication is over the limit.
    #[error("STF-5006")]
    TooLarge,
    /// A publication holds no events, or is inconsistent.
    #[error("STF-5007")]
    BadPublication,
    /// A start position after the last event.
    #[error("STF-5008")]
    PositionBeyondEnd,
    /// A reader was disconnected: another displaced it, or the partition's owner changed.
    #[error("STF-5009")]
    Displaced,
    /// A reader with a higher epoch is attached.
    #[error("STF-5010")]
    LowerEpoch,
    /// An epoch reader is attached, so readers without an epoch are rejected.
    #[error("STF-5011")]
    EpochRequired,
    /// The limit of readers without an epoch is reached.
    #[error("STF-5012")]
    TooManyReaders,
    /// A producer left out a sequence number.
    #[error("STF-5013")]
    OutOfOrder,
    /// A producer with a newer epoch has taken over.
    #[error("STF-5014")]
    ProducerStolen,
    /// The producer was never opened here, or has been evicted.
    #[error("STF-5015")]
    UnknownProducer,
    /// The checkpoint is not at the expected position, or would move back.
    #[error("STF-5016")]
    CheckpointMoved,
    /// There is no such container.
    #[error("STF-5017")]
    ContainerNotFound,
    /// The container exists.
    #[error("STF-5018")]
    ContainerExists,
    /// There is no such blob.
    #[error("STF-5019")]
    BlobNotFound,
    /// The blob exists.
    #[error("STF-5020")]
    BlobExists,
    /// The blob's version does not match the condition.
    #[error("STF-5021")]
    ConditionFailed,
    /// A name, body or metadata of a blob is not permitted.
    #[error("STF-5022")]
    BadBlob,
    /// The blob is leased, and the request names no lease.
    #[error("STF-5030")]
    LeaseHeld,
    /// The blob has another lease than the request names.
    #[error("STF-5031")]
    LeaseMismatch,
    /// The request names a lease, and the blob has none.
    #[error("STF-5032")]
    LeaseNotPresent,
    /// The lease was broken, or has expired.
    #[error("STF-5033")]
    LeaseBroken,
    /// A block list names unknown blocks.
    #[error("STF-5034")]
    BadBlockList,
    /// The account of the blob has no room for it.
    #[error("STF-5036")]
    AccountFull,
    /// The event hub has no such policy.
    #[error("STF-5035")]
    PolicyNotFound,
    /// A handler failed, and the error handler has been called.
    #[error("STF-5023")]
    HandlerFailed,
    /// A transient failure; retry. The source says why.
    #[error("STF-5024")]
    Unavailable,
    /// Stored bytes of the service cannot be read.
    #[error("STF-5025")]
    Damaged,
}

impl Error {
    /// An error with a message for the caller.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
        }
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The stable code: the cause's own if it came from below.
    pub fn code(&self) -> Code {
        match &self.source {
            Some(source) => source.code(),
            None => self.kind.code(),
        }
    }

    /// What happened, without the code.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether the error is transient, so that a retry may succeed.
    pub fn is_passing(&self) -> bool {
        self.kind == ErrorKind::Unavailable
    }

    /// Whether another node does not support the request: it runs the previous
    /// version.
    pub(crate) fn is_unsupported(&self) -> bool {
        let source = self.source.as_deref();
        source.is_some_and(|own| matches!(own.kind(), PartitionErrorKind::NoService { .. }))
    }

    pub(crate) fn hub(name: &str) -> Self {
        // Clients match this text.
        let words = format!("The messaging entity '{name}' could not be found.");
        Self::new(ErrorKind::HubNotFound, words)
    }

    pub(crate) fn group(hub: &str, group: &str) -> Self {
        let words =
            format!("The messaging entity '{hub}/ConsumerGroups/{group}' could not be found.");
        Self::new(ErrorKind::GroupNotFound, words)
    }

    pub(crate) fn partition(hub: &str, partitions: u32) -> Self {
        let words = format!(
            "The specified partition is invalid for an EventHub partition sender or receiver. \
             It should be between 0 and {} in '{hub}'.",
            partitions.saturating_sub(1)
        );
        Self::new(ErrorKind::PartitionNotFound, words)
    }

    /// A task ended before its work was done: the node is shutting down.
    pub(crate) fn shutting_down() -> Self {
        Self::new(ErrorKind::Unavailable, "the node is shutting down; retry")
    }

    pub(crate) fn damaged(what: &str) -> Self {
        let words = format!("{what} cannot be read; restore the folder from a backup");
        Self::new(ErrorKind::Damaged, words)
    }
}

impl From<PartitionError> for Error {
    fn from(error: PartitionError) -> Self {
        if let PartitionErrorKind::Refused(refusal) = error.kind()
            && let Some(kind) = ErrorKind::with_code(refusal.code.0)
        {
            return Self::new(kind, refusal.message.clone());
        }
        Self {
            kind: ErrorKind::Unavailable,
            message: error.code().strip(&error.to_string()).to_owned(),
            source: Some(Box::new(error)),
        }
    }
}

impl From<Error> for ServiceError {
    fn from(error: Error) -> Self {
        Self::new(error.kind.code(), error.message)
    }
}

impl From<Error> for steadfast_partition::TurnError {
    fn from(error: Error) -> Self {
        Self::Refused(error.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code(), self.message)
    }
}

impl StdError for Error {
    /// What is below the error of the partition: that one is the message.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref()?.source()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_becomes_the_same_kind_again() {
        let codes = (5001..=5099).map(|number| format!("STF-{number}"));
        let mut count = 0;
        for (kind, code) in codes.filter_map(|code| Some((ErrorKind::with_code(&code)?, code))) {
            let refusal = ServiceError::from(Error::new(kind, "words"));
            assert_eq!(refusal.code.0, code);
            let error = Error::from(PartitionError::new(PartitionErrorKind::Refused(refusal)));
            assert_eq!((error.kind(), error.message()), (kind, "words"));
            count += 1;
        }
        assert_eq!(count, 32);
    }

    #[test]
    fn the_error_of_a_partition_has_its_code_once() {
        let partition = steadfast_core::id::Partition::new(0, 1);
        let error = Error::from(PartitionError::new(PartitionErrorKind::Busy { partition }));
        assert_eq!(error.code().0, "STF-4003");
        assert!(
            error.message().starts_with("too many"),
            "{}",
            error.message()
        );
        assert!(
            error.to_string().starts_with("STF-4003: too many"),
            "{error}"
        );
        assert!(error.source().is_none(), "it would be printed again");
    }
}

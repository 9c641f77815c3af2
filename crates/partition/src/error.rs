//! Errors of calls to instances.
//!
//! Every kind has a stable code and a page in `docs/errors/`. A service's refusal
//! carries the service's own code.

use std::error::Error as StdError;
use std::fmt;

use steadfast_core::error::Code;
use steadfast_core::id::Partition;
use steadfast_macros::ErrorKind;
use steadfast_storage::Error as StorageError;

use crate::execution::service_error::ServiceError;
use crate::ingress::address::ServiceKind;

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error: its kind and its cause.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    source: Option<Box<StorageError>>,
}

/// The kinds of failure; each has its own code.
#[derive(Clone, Debug, PartialEq, Eq, ErrorKind)]
#[non_exhaustive]
pub enum ErrorKind {
    /// This node does not serve the partition.
    #[error("STF-4001", "partition {partition} is not served here; ask its owner")]
    NotOwner { partition: Partition },
    /// The partition is being handed over.
    #[error(
        "STF-4002",
        "partition {partition} is being handed over; try again soon"
    )]
    Draining { partition: Partition },
    /// Too many commands wait.
    #[error(
        "STF-4003",
        "too many commands wait for partition {partition}; try again soon"
    )]
    Busy { partition: Partition },
    /// The service refused the command; nothing has changed.
    #[error(_, "{}", _0.message)]
    Refused(ServiceError),
    /// A message of a transaction cannot be applied by its receiver; nothing has changed.
    #[error(_, "{}", _0.message)]
    MessageRefused(ServiceError),
    /// The service is not registered.
    #[error(
        "STF-4004",
        "no service of kind {} is registered; register it before the start",
        kind.0
    )]
    NoService { kind: ServiceKind },
    /// The owner was lost before the outcome of the command was known.
    #[error(
        "STF-4005",
        "the owner of partition {partition} went away; the command may or may not \
         have happened, so ask before you repeat it"
    )]
    OutcomeUnknown { partition: Partition },
    /// The bytes of a message cannot be decoded.
    #[error("STF-4006", "{what} is malformed; send what this version understands")]
    Malformed { what: &'static str },
    /// The space was created with other settings.
    #[error(
        "STF-4007",
        "space {space} does not fit: {what}; use the settings it was made with"
    )]
    SpaceDiffers { space: String, what: String },
    /// The owner of the partition cannot be reached.
    #[error(
        "STF-4008",
        "the owner of partition {partition} cannot be reached; try again soon"
    )]
    Unreachable { partition: Partition },
    /// A transaction has a command for an instance that lives in another partition.
    #[error(
        "STF-4009",
        "the command is for an instance of partition {home}, and the transaction is in \
         {here}; send it as a message"
    )]
    ForeignCommand { home: Partition, here: Partition },
    /// The receivers of a transaction's messages did not answer; nothing has changed.
    #[error(
        "STF-4010",
        "the messages of the transaction cannot be checked now: {why}; nothing was sent, so \
         try again"
    )]
    Unchecked { why: String },
    /// The storage engine failed.
    #[error(_, "the storage engine failed")]
    Storage,
}

impl Error {
    /// An error without a cause underneath.
    pub fn new(kind: ErrorKind) -> Self {
        Self { kind, source: None }
    }

    /// The owner was lost while the command was in progress.
    pub fn unknown(partition: Partition, cause: Option<StorageError>) -> Self {
        Self {
            kind: ErrorKind::OutcomeUnknown { partition },
            source: cause.map(Box::new),
        }
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// The error of the storage engine, if that is the cause.
    pub fn storage(&self) -> Option<&StorageError> {
        self.source.as_deref()
    }

    /// The stable code, the name of its page in `docs/errors/`.
    pub fn code(&self) -> Code {
        match (&self.kind, &self.source) {
            (ErrorKind::Refused(refusal) | ErrorKind::MessageRefused(refusal), _) => refusal.code,
            (ErrorKind::Storage, Some(source)) => source.code(),
            (kind, _) => kind.own_code().unwrap_or(Code("STF-4005")),
        }
    }
}

impl From<StorageError> for Error {
    fn from(source: StorageError) -> Self {
        Self {
            kind: ErrorKind::Storage,
            source: Some(Box::new(source)),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.kind, &self.source) {
            (ErrorKind::Storage, Some(source)) => source.fmt(f),
            (kind, Some(source)) => write!(f, "{}: {kind} ({source})", self.code()),
            (kind, None) => write!(f, "{}: {kind}", self.code()),
        }
    }
}

impl StdError for Error {
    /// What is below the storage error: that one is part of the message.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref()?.source()
    }
}

#[cfg(test)]
mod tests {
    use steadfast_storage::ErrorKind as StorageKind;

    use super::*;

    /// An error with its causes, as command-line tools print them.
    fn chain(error: &dyn StdError) -> String {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            text += &format!(": {error}");
            cause = error.source();
        }
        text
    }

    #[test]
    fn a_code_is_printed_once() {
        let storage = || StorageError::new(StorageKind::Closed);
        assert_eq!(
            chain(&Error::from(storage())),
            "STF-2012: the store is closed"
        );
        let partition = Partition::new(0, 1);
        let unknown = chain(&Error::unknown(partition, Some(storage())));
        assert_eq!(unknown.matches("STF-2012").count(), 1, "{unknown}");
        assert_eq!(unknown.matches("STF-4005").count(), 1, "{unknown}");
        let refusal = ServiceError::new(storage().code(), storage().to_string());
        let refused = chain(&Error::new(ErrorKind::Refused(refusal)));
        assert_eq!(refused, "STF-2012: the store is closed");
    }
}

//! Errors of orchestrations and entities.
//!
//! Every kind has a stable code and a page in `docs/errors/`. The service rejects
//! commands with the same codes, so the kind survives the way from another node.

use std::error::Error as StdError;
use std::fmt;

use steadfast_core::error::Code;
use steadfast_macros::ErrorKind;
use steadfast_partition::{
    Error as PartitionError, ErrorKind as PartitionKind, ServiceError, TurnError,
};

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed operation, and its cause.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Box<PartitionError>>,
}

/// The kinds of failure; each has its own code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ErrorKind)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request cannot be carried out as it is written.
    #[error("STF-5101")]
    Invalid,
    /// An instance with this id exists already.
    #[error("STF-5102")]
    Exists,
    /// There is no such instance.
    #[error("STF-5103")]
    NoInstance,
    /// The state of the instance does not allow the request.
    #[error("STF-5104")]
    State,
    /// Too many requests wait for the entity.
    #[error("STF-5105")]
    Crowded,
    /// A payload is too large.
    #[error("STF-5106")]
    TooLarge,
    /// A server could not be reached, or denied access.
    #[error("STF-5107")]
    Unreachable,
    /// There is no such task hub, and task hubs are not created on demand.
    #[error("STF-5108")]
    NoHub,
    /// The partition of the instance failed.
    #[error(_)]
    Partition,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
        }
    }

    /// There is no such instance.
    pub(crate) fn no_instance(instance: &str) -> Self {
        Self::new(
            ErrorKind::NoInstance,
            format!("there is no instance {instance:?}"),
        )
    }

    /// Parses the error text of a server, `code: message`. A text with an unknown code
    /// becomes [`ErrorKind::Unreachable`].
    pub fn from_text(text: &str) -> Self {
        let known = |(code, message): (&str, &str)| {
            let kind = ErrorKind::with_code(code)?;
            Some(Self::new(kind, message))
        };
        let told = text.split_once(": ").and_then(known);
        told.unwrap_or_else(|| match Code::leading(text) {
            Some(_) => Self::new(ErrorKind::Unreachable, format!("the server failed: {text}")),
            None => Self::new(ErrorKind::Unreachable, text),
        })
    }

    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The stable code, which names its page in `docs/errors/`.
    pub fn code(&self) -> Code {
        match (&self.source, self.kind.own_code()) {
            (_, Some(code)) => code,
            (Some(source), None) => source.code(),
            (None, None) => Code("STF-4005"),
        }
    }

    /// What happened and what to do, without the code.
    pub fn message(&self) -> &str {
        &self.message
    }
}

const TOO_LARGE: &str =
    "this does not fit into one commit; keep large payloads elsewhere and send their addresses";

/// Rejects a command with the code of a kind.
pub(crate) fn refuse(kind: ErrorKind, message: impl Into<String>) -> TurnError {
    let code = kind.own_code();
    let code = code.expect("a service refuses with a code of its own");
    TurnError::Refused(ServiceError::new(code, message))
}

impl From<PartitionError> for Error {
    fn from(source: PartitionError) -> Self {
        let code = source.code();
        // The commit exceeds the limit of a transaction; a retry would fail again.
        let code = match code.0 {
            "STF-2009" => Code("STF-5106"),
            _ => code,
        };
        let known = ErrorKind::with_code(code.0);
        let message = match source.kind() {
            _ if code.0 == "STF-5106" && source.code().0 != code.0 => TOO_LARGE.to_owned(),
            PartitionKind::Refused(refusal) => refusal.message.clone(),
            _ => source.code().strip(&source.to_string()).to_owned(),
        };
        Self {
            kind: known.unwrap_or(ErrorKind::Partition),
            message,
            source: Some(Box::new(source)),
        }
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
    use steadfast_core::id::Partition;

    use super::*;

    #[test]
    fn the_error_of_a_partition_has_its_code_once() {
        let partition = Partition::new(0, 1);
        let error = Error::from(PartitionError::new(PartitionKind::Busy { partition }));
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

    #[test]
    fn the_text_of_a_server_keeps_its_code() {
        let known = Error::from_text("STF-5101: there is no instance");
        assert_eq!(known.to_string(), "STF-5101: there is no instance");
        let other = Error::from_text("STF-4003: too many commands wait");
        let code = other.code().0;
        let expected = format!("{code}: the server failed: STF-4003: too many commands wait");
        assert_eq!(other.to_string(), expected);
    }
}

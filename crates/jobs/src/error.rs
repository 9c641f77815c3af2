//! Errors of jobs.
//!
//! Every kind has a stable code and a page in `docs/errors/`. The service rejects with
//! the same codes, so that the kind of a rejection from another node is known, too.

use std::error::Error as StdError;
use std::fmt;

use steadfast_core::error::Code;
use steadfast_core::limits;
use steadfast_macros::ErrorKind;
use steadfast_partition::{
    Error as PartitionError, ErrorKind as PartitionErrorKind, ServiceError, TurnError,
};

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// An error: its kind, a message, and its cause.
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
    /// There is no such collection.
    #[error("STF-5201")]
    NoCollection,
    /// There is no such job.
    #[error("STF-5202")]
    NoJob,
    /// The collection has reached its limit of jobs.
    #[error("STF-5203")]
    Full,
    /// The job has ended, and cannot be changed or run.
    #[error("STF-5204")]
    Final,
    /// The job or collection was modified concurrently.
    #[error("STF-5205")]
    Changed,
    /// The collection is being deleted.
    #[error("STF-5206")]
    Leaving,
    /// Too many runs are pending.
    #[error("STF-5207")]
    Crowded,
    /// The job would never run.
    #[error("STF-5208")]
    NeverRuns,
    /// A job or collection is too large to be kept.
    #[error("STF-5209")]
    TooLarge,
    /// The name of a collection belongs to the paired region.
    #[error("STF-5210")]
    Taken,
    /// There is no occurrence in the requested period.
    #[error("STF-5211")]
    NoOccurrence,
    /// The partition of the job returned an error.
    #[error(_)]
    Partition,
}

impl Error {
    /// What kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The stable code, the name of its page in `docs/errors/`.
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

/// Rejects texts over the size limit.
pub(crate) fn check_size<'a>(texts: impl IntoIterator<Item = &'a [u8]>) -> Result<()> {
    let bytes: usize = texts.into_iter().map(<[u8]>::len).sum();
    if bytes > limits::JOB_BYTES {
        let most = limits::JOB_BYTES;
        return Err(Error {
            kind: ErrorKind::TooLarge,
            message: format!("the texts have {bytes} bytes, and the limit is {most}; shorten them"),
            source: None,
        });
    }
    Ok(())
}

/// A rejection by the service, with the code of its kind.
pub(crate) fn refuse(kind: ErrorKind, message: impl Into<String>) -> TurnError {
    let code = kind.own_code();
    let code = code.expect("a service rejects with a code of its own");
    TurnError::Refused(ServiceError::new(code, message))
}

impl From<PartitionError> for Error {
    fn from(source: PartitionError) -> Self {
        let code = source.code();
        let known = ErrorKind::with_code(code.0);
        let message = match source.kind() {
            PartitionErrorKind::Refused(refusal) => refusal.message.clone(),
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

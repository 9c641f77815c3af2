//! Errors of jobs.
//!
//! Every kind has a stable code and a page in `docs/errors/`. The service rejects with
//! the same codes, so that the kind of a rejection from another node is known, too.

use std::error::Error as StdError;
use std::fmt;

use steadfast_core::error::Code;
use steadfast_core::limits;
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no such collection.
    NoCollection,
    /// There is no such job.
    NoJob,
    /// The collection has reached its limit of jobs.
    Full,
    /// The job has ended, and cannot be changed or run.
    Final,
    /// The job or collection was modified concurrently.
    Changed,
    /// The collection is being deleted.
    Leaving,
    /// Too many runs are pending.
    Crowded,
    /// The job would never run.
    NeverRuns,
    /// A job or collection is too large to be kept.
    TooLarge,
    /// The name of a collection belongs to the paired region.
    Taken,
    /// There is no occurrence in the requested period.
    NoOccurrence,
    /// The partition of the job returned an error.
    Partition,
}

const CODES: [(ErrorKind, &str); 11] = [
    (ErrorKind::NoCollection, "STF-5201"),
    (ErrorKind::NoJob, "STF-5202"),
    (ErrorKind::Full, "STF-5203"),
    (ErrorKind::Final, "STF-5204"),
    (ErrorKind::Changed, "STF-5205"),
    (ErrorKind::Leaving, "STF-5206"),
    (ErrorKind::Crowded, "STF-5207"),
    (ErrorKind::NeverRuns, "STF-5208"),
    (ErrorKind::TooLarge, "STF-5209"),
    (ErrorKind::Taken, "STF-5210"),
    (ErrorKind::NoOccurrence, "STF-5211"),
];

impl Error {
    /// What kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The stable code, the name of its page in `docs/errors/`.
    pub fn code(&self) -> Code {
        match (&self.source, code_of(self.kind)) {
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
    let code = code_of(kind).expect("a service rejects with a code of its own");
    TurnError::Refused(ServiceError::new(code, message))
}

fn code_of(kind: ErrorKind) -> Option<Code> {
    let found = CODES.iter().find(|(known, _)| *known == kind);
    found.map(|(_, code)| Code(code))
}

impl From<PartitionError> for Error {
    fn from(source: PartitionError) -> Self {
        let code = source.code();
        let known = CODES.iter().find(|(_, known)| *known == code.0);
        let message = match source.kind() {
            PartitionErrorKind::Refused(refusal) => refusal.message.clone(),
            _ => source.code().strip(&source.to_string()).to_owned(),
        };
        Self {
            kind: known.map_or(ErrorKind::Partition, |(kind, _)| *kind),
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

//! Errors with their own exit code.

use std::fmt;
use std::process::ExitCode;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The resource does not exist.
    NotFound(String),
    /// The command timed out.
    TimedOut(String),
    /// An orchestration ended without completing.
    Incomplete(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::NotFound(message) | Self::TimedOut(message) | Self::Incomplete(message)) = self;
        f.write_str(message)
    }
}

impl std::error::Error for Failure {}

/// The exit code of an error.
pub(crate) fn code(error: &anyhow::Error) -> ExitCode {
    match error.downcast_ref::<Failure>() {
        Some(Failure::NotFound(_)) => ExitCode::from(3),
        Some(Failure::TimedOut(_)) => ExitCode::from(4),
        Some(Failure::Incomplete(_)) => ExitCode::from(5),
        None => ExitCode::FAILURE,
    }
}

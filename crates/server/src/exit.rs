//! Errors with their own exit code.

use std::fmt;
use std::process::ExitCode;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum CommandError {
    /// The resource does not exist.
    NotFound(String),
    /// The command timed out.
    TimedOut(String),
    /// An orchestration ended without completing.
    Incomplete(String),
    /// The configuration is invalid.
    Configuration(String),
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::NotFound(message)
        | Self::TimedOut(message)
        | Self::Incomplete(message)
        | Self::Configuration(message)) = self;
        f.write_str(message)
    }
}

impl std::error::Error for CommandError {}

/// The exit code of an error.
pub(crate) fn code(error: &anyhow::Error) -> ExitCode {
    match error.downcast_ref::<CommandError>() {
        Some(CommandError::Configuration(_)) => ExitCode::from(2),
        Some(CommandError::NotFound(_)) => ExitCode::from(3),
        Some(CommandError::TimedOut(_)) => ExitCode::from(4),
        Some(CommandError::Incomplete(_)) => ExitCode::from(5),
        None => ExitCode::FAILURE,
    }
}

//! Errors with their own exit code.

use std::fmt;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum CommandError {
    /// The arguments are incomplete, or an action was not confirmed.
    Usage(String),
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
        let (Self::Usage(message)
        | Self::NotFound(message)
        | Self::TimedOut(message)
        | Self::Incomplete(message)
        | Self::Configuration(message)) = self;
        f.write_str(message)
    }
}

impl std::error::Error for CommandError {}

/// The kind of an error, and its exit code.
pub(crate) fn kind(error: &anyhow::Error) -> (&'static str, u8) {
    match error.downcast_ref::<CommandError>() {
        Some(CommandError::Usage(_)) => ("usage", USAGE),
        Some(CommandError::Configuration(_)) => ("configuration", USAGE),
        Some(CommandError::NotFound(_)) => ("not_found", 3),
        Some(CommandError::TimedOut(_)) => ("timed_out", 4),
        Some(CommandError::Incomplete(_)) => ("incomplete", 5),
        None => ("failed", 1),
    }
}

/// The exit code of invalid arguments and settings.
pub(crate) const USAGE: u8 = 2;

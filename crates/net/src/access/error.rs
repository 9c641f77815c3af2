//! Errors of authentication and authorization.

use std::fmt;

use steadfast_core::error::Code;
use steadfast_macros::ErrorKind;

/// Why access is denied; the message holds no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessError {
    pub reason: AccessErrorKind,
    message: String,
}

/// The kinds of denial; each has its own code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ErrorKind)]
pub enum AccessErrorKind {
    /// No proof was presented.
    #[error("STF-6001")]
    Missing,
    /// The proof cannot be parsed.
    #[error("STF-6002")]
    Malformed,
    /// The proof matches no key.
    #[error("STF-6003")]
    Wrong,
    /// The proof has expired, or is not valid yet.
    #[error("STF-6004")]
    Expired,
    /// The proof is valid, but its key lacks the right.
    #[error("STF-6005")]
    Forbidden,
}

impl AccessError {
    /// A denial.
    pub fn new(reason: AccessErrorKind, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }

    /// The stable code, the name of its page in `docs/errors/`.
    pub fn code(&self) -> Code {
        self.reason.code()
    }

    /// What happened, without the code.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code(), self.message)
    }
}

impl std::error::Error for AccessError {}

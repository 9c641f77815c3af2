//! Errors of authentication and authorization.

use std::fmt;

use steadfast_core::error::Code;

/// Why access is denied; the message holds no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessError {
    pub reason: AccessErrorKind,
    message: String,
}

/// The kinds of denial; each has its own code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessErrorKind {
    /// No proof was presented.
    Missing,
    /// The proof cannot be parsed.
    Malformed,
    /// The proof matches no key.
    Wrong,
    /// The proof has expired, or is not valid yet.
    Expired,
    /// The proof is valid, but its key lacks the right.
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
        Code(match self.reason {
            AccessErrorKind::Missing => "STF-6001",
            AccessErrorKind::Malformed => "STF-6002",
            AccessErrorKind::Wrong => "STF-6003",
            AccessErrorKind::Expired => "STF-6004",
            AccessErrorKind::Forbidden => "STF-6005",
        })
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

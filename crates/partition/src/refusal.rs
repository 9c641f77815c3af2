//! How a service says no, or not yet.

use std::fmt;

use steadfast_core::error::Code;

/// A service's no. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The service's own stable code.
    pub code: Code,
    /// What happened, to what, and what to do.
    pub message: String,
}

/// Why a call of a service ended without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// Rows are not in memory; the turn knows which. They are loaded, and the
    /// command runs again from its beginning.
    Missing,
    /// Code outside has to run first; the turn has given a ticket for it. The command
    /// runs again from its beginning when that has answered.
    Away,
    /// The service says no.
    Refused(Refusal),
}

impl Refusal {
    /// A no with its reason.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

impl From<Refusal> for Halt {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

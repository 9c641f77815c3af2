//! How a turn of a service ends without an answer.

use std::fmt;

use steadfast_core::error::Code;

/// An error of a service. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceError {
    /// The service's own stable code.
    pub code: Code,
    /// What failed, why, and what to do.
    pub message: String,
}

/// Why a call of a service ended without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnError {
    /// Rows are not in memory; the turn knows which. They are loaded, and the
    /// command runs again from its beginning.
    Missing,
    /// Code outside the loop has to run first; the turn has created a completer for it.
    /// The command runs again from its beginning when the code has completed.
    Suspended,
    /// The service refuses the command.
    Refused(ServiceError),
}

impl ServiceError {
    /// An error with its reason, which may begin with the code.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            code,
            message: code.strip(&message).to_owned(),
        }
    }
}

impl From<ServiceError> for TurnError {
    fn from(refusal: ServiceError) -> Self {
        Self::Refused(refusal)
    }
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

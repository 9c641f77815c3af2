//! Errors of the SignalR decoder.

use std::fmt;

/// The message is malformed. Decoding has no side effects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SignalRDecodeError {
    /// The part being read, or what is wrong with it.
    pub what: &'static str,
}

impl SignalRDecodeError {
    pub(crate) const fn new(what: &'static str) -> Self {
        Self { what }
    }
}

impl fmt::Display for SignalRDecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed SignalR: {}", self.what)
    }
}

impl std::error::Error for SignalRDecodeError {}

pub type Result<T> = std::result::Result<T, SignalRDecodeError>;

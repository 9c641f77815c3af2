//! Errors of the AMQP decoder.

use std::fmt;

/// The bytes are malformed. Decoding has no side effects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AmqpDecodeError {
    /// The part being read, or what is wrong with it.
    pub what: &'static str,
}

impl AmqpDecodeError {
    pub(crate) const fn new(what: &'static str) -> Self {
        Self { what }
    }
}

impl fmt::Display for AmqpDecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed AMQP: {}", self.what)
    }
}

impl std::error::Error for AmqpDecodeError {}

pub type Result<T> = std::result::Result<T, AmqpDecodeError>;

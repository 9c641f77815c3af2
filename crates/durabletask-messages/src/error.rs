//! The error of a message that cannot be decoded.

use std::fmt;

use steadfast_core::limits;

/// Why a message cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvertError(pub String);

impl fmt::Display for ConvertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl ConvertError {
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// Checks the length of a payload.
pub fn payload(what: &str, text: Option<String>) -> Result<Option<String>, ConvertError> {
    match &text {
        Some(long) if long.len() > limits::PAYLOAD_BYTES => {
            let (has, most) = (long.len(), limits::PAYLOAD_BYTES);
            Err(ConvertError::new(format!(
                "{what} has {has} bytes; {most} are the most"
            )))
        }
        _ => Ok(text),
    }
}

//! Commands and replies, as values or as bytes.
//!
//! Inside a node a command is passed as a value. It is encoded only where needed: in a
//! row, or on the way to another node.

use std::any::Any;

use bytes::Bytes;
use steadfast_core::codec::DecodeError;

/// A type that can be sent between nodes and versions.
pub trait Message: Send + Sync + Sized + 'static {
    /// Bytes that [`Message::decode`] understands, in this version and later ones.
    fn encode(&self) -> Bytes;

    /// The value in `bytes`.
    fn decode(bytes: &Bytes) -> Result<Self, DecodeError>;
}

impl Message for Bytes {
    fn encode(&self) -> Bytes {
        self.clone()
    }

    fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
        Ok(bytes.clone())
    }
}

impl Message for () {
    fn encode(&self) -> Bytes {
        Bytes::new()
    }

    fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
        if bytes.is_empty() {
            Ok(())
        } else {
            Err(DecodeError)
        }
    }
}

/// A command or a reply.
pub(crate) enum MessagePayload {
    /// The value itself.
    Value(Box<dyn Any + Send + Sync>),
    /// Its bytes.
    Bytes(Bytes),
    /// Its bytes, and the decoded value.
    Read(Bytes, Box<dyn Any + Send + Sync>),
}

impl MessagePayload {
    pub(crate) fn value<M: Message>(message: M) -> Self {
        Self::Value(Box::new(message))
    }

    /// Takes the message out.
    pub(crate) fn open<M: Message>(self) -> Result<M, DecodeError> {
        match self {
            Self::Value(value) | Self::Read(_, value) => value
                .downcast()
                .map(|value| *value)
                .map_err(|_| DecodeError),
            Self::Bytes(bytes) => M::decode(&bytes),
        }
    }

    /// Borrows the message; bytes are decoded once.
    pub(crate) fn look<M: Message>(&mut self) -> Result<&M, DecodeError> {
        if let Self::Bytes(bytes) = self {
            let value = M::decode(bytes)?;
            *self = Self::Read(std::mem::take(bytes), Box::new(value));
        }
        match self {
            Self::Value(value) | Self::Read(_, value) => value.downcast_ref().ok_or(DecodeError),
            Self::Bytes(_) => Err(DecodeError),
        }
    }

    /// Its bytes, if it arrived as bytes.
    pub(crate) fn bytes(&self) -> Bytes {
        match self {
            Self::Bytes(bytes) | Self::Read(bytes, _) => bytes.clone(),
            Self::Value(_) => Bytes::new(),
        }
    }
}

//! Reads hub messages of either protocol.

use bytes::Bytes;

use super::error::{Result, SignalRDecodeError};
use super::message::Message;
use super::protocol::Protocol;
use super::{frame, json, msgpack};

/// Reads a whole message, with its framing.
pub fn message(protocol: Protocol, message: &Bytes) -> Result<Message> {
    let body = frame::body(protocol, message)?;
    match protocol {
        Protocol::Json => json::read(&body),
        Protocol::MessagePack => msgpack::read(&body),
        Protocol::Blazor => Err(SignalRDecodeError::new("blazorpack is only passed on")),
    }
}

/// The type of a message, and the id of its call.
pub fn look(protocol: Protocol, message: &Bytes) -> Result<(i64, Option<String>)> {
    let body = frame::body(protocol, message)?;
    match protocol {
        Protocol::Json => json::look(&body),
        Protocol::MessagePack | Protocol::Blazor => msgpack::look(&body),
    }
}

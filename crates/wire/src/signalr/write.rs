//! Writes hub messages.
//!
//! JSON has exactly the fields that the protocol names, because a client in use
//! fails on any other; calls in MessagePack have all six elements for the same
//! reason.

use bytes::Bytes;
use serde_json::Value;

use super::frame::{SEPARATOR, counted};
use super::message::{Outcome, kind};
use super::pack;
use super::protocol::Protocol;

/// A call. `arguments` is an array in the protocol's own encoding.
pub fn invocation(protocol: Protocol, id: Option<&str>, target: &str, arguments: &[u8]) -> Bytes {
    match protocol {
        Protocol::Json => {
            let mut out = Vec::with_capacity(arguments.len() + target.len() + 64);
            out.extend_from_slice(br#"{"type":1"#);
            if let Some(id) = id {
                field(&mut out, "invocationId", id);
            }
            field(&mut out, "target", target);
            raw(&mut out, "arguments", arguments);
            end(out)
        }
        _ => {
            let mut out = head(6, kind::INVOCATION);
            pack::text_or_nil(&mut out, id);
            pack::text(&mut out, target);
            out.extend_from_slice(arguments);
            pack::array(&mut out, 0);
            counted(&out)
        }
    }
}

/// An item of a stream.
pub fn item(protocol: Protocol, id: &str, item: &[u8]) -> Bytes {
    match protocol {
        Protocol::Json => {
            let mut out = br#"{"type":2"#.to_vec();
            field(&mut out, "invocationId", id);
            raw(&mut out, "item", item);
            end(out)
        }
        _ => {
            let mut out = head(4, kind::ITEM);
            pack::text(&mut out, id);
            out.extend_from_slice(item);
            counted(&out)
        }
    }
}

/// The completion of a call.
pub fn completion(protocol: Protocol, id: &str, outcome: &Outcome) -> Bytes {
    match protocol {
        Protocol::Json => {
            let mut out = br#"{"type":3"#.to_vec();
            field(&mut out, "invocationId", id);
            match outcome {
                Outcome::Void => {}
                Outcome::Value(value) => raw(&mut out, "result", value),
                Outcome::Error(error) => field(&mut out, "error", said(error)),
            }
            end(out)
        }
        _ => {
            let count = if *outcome == Outcome::Void { 4 } else { 5 };
            let mut out = head(count, kind::COMPLETION);
            pack::text(&mut out, id);
            match outcome {
                Outcome::Error(error) => {
                    pack::uint(&mut out, 1);
                    pack::text(&mut out, said(error));
                }
                Outcome::Void => pack::uint(&mut out, 2),
                Outcome::Value(value) => {
                    pack::uint(&mut out, 3);
                    out.extend_from_slice(value);
                }
            }
            counted(&out)
        }
    }
}

/// A ping.
pub fn ping(protocol: Protocol) -> Bytes {
    match protocol {
        Protocol::Json => Bytes::from_static(b"{\"type\":6}\x1e"),
        _ => Bytes::from_static(&[0x02, 0x91, 0x06]),
    }
}

/// A close message.
pub fn close(protocol: Protocol, error: Option<&str>, allow_reconnect: bool) -> Bytes {
    match protocol {
        Protocol::Json => {
            let mut out = br#"{"type":7"#.to_vec();
            if let Some(error) = error {
                field(&mut out, "error", said(error));
            }
            if allow_reconnect {
                raw(&mut out, "allowReconnect", b"true");
            }
            end(out)
        }
        _ => {
            let mut out = Vec::new();
            pack::array(&mut out, 3);
            pack::uint(&mut out, kind::CLOSE as u64);
            pack::text_or_nil(&mut out, error.map(said));
            pack::bool(&mut out, allow_reconnect);
            counted(&out)
        }
    }
}

/// Acknowledges all messages up to `number`.
pub fn ack(protocol: Protocol, number: u64) -> Bytes {
    sequenced(protocol, kind::ACK, number)
}

/// The sequence number of the next message.
pub fn sequence(protocol: Protocol, number: u64) -> Bytes {
    sequenced(protocol, kind::SEQUENCE, number)
}

/// The caller cancels a stream.
pub fn cancel(protocol: Protocol, id: &str) -> Bytes {
    match protocol {
        Protocol::Json => {
            let mut out = br#"{"type":5"#.to_vec();
            field(&mut out, "invocationId", id);
            end(out)
        }
        _ => {
            let mut out = head(3, kind::CANCEL);
            pack::text(&mut out, id);
            counted(&out)
        }
    }
}

fn sequenced(protocol: Protocol, own: i64, number: u64) -> Bytes {
    match protocol {
        Protocol::Json => end(format!(r#"{{"type":{own},"sequenceId":{number}"#).into_bytes()),
        _ => {
            let mut out = vec![0x92, own as u8];
            pack::uint(&mut out, number);
            counted(&out)
        }
    }
}

/// An array that begins with a type and empty headers.
fn head(count: usize, own: i64) -> Vec<u8> {
    let mut out = Vec::new();
    pack::array(&mut out, count);
    pack::uint(&mut out, own as u64);
    pack::map(&mut out, 0);
    out
}

/// Clients treat an empty error as success.
fn said(error: &str) -> &str {
    if error.is_empty() {
        "The call failed."
    } else {
        error
    }
}

fn field(out: &mut Vec<u8>, name: &str, text: &str) {
    raw(out, name, Value::from(text).to_string().as_bytes());
}

fn raw(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    out.extend_from_slice(value);
}

fn end(mut out: Vec<u8>) -> Bytes {
    out.push(b'}');
    out.push(SEPARATOR);
    Bytes::from(out)
}

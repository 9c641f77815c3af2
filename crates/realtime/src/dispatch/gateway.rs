//! What a hub sends, to whom, and through what.
//!
//! A hub in the process of the service reaches clients directly, a hub in an app server
//! by messages to the service. A hub does not know which. A message is written once per
//! protocol, however many clients receive it.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde::de::{DeserializeOwned, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use steadfast_wire::signalr::{Protocol, write};

use crate::error::{Error, ErrorKind, Result};

/// The recipients of a message. Those that are not connected are skipped silently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipients {
    /// All clients, except these connections.
    All { except: Vec<String> },
    /// The connections of a group, except these.
    Group { name: String, except: Vec<String> },
    /// The connections of several groups; one in two of them gets one copy.
    Groups(Vec<String>),
    /// All connections of these users.
    Users(Vec<String>),
    /// These connections.
    Connections(Vec<String>),
}

/// Requests of a hub to the service.
pub trait ClientGateway: Send + Sync + 'static {
    /// The protocols that clients may use.
    fn protocols(&self) -> ProtocolSet;

    /// A gateway for messages sent within a call of this connection, if that makes a
    /// difference: they arrive before the call's completion.
    fn within(&self, connection: &Arc<str>) -> Option<Arc<dyn ClientGateway>> {
        let _ = connection;
        None
    }

    /// Sends a message. Messages of one sender arrive in the order of the calls.
    fn send<'a>(&'a self, to: &'a Recipients, payload: HubPayload) -> BoxFuture<'a, Result<()>>;

    /// Adds a connection to a group; every send after it returns reaches the
    /// connection.
    fn join<'a>(&'a self, connection: &'a str, group: &'a str) -> BoxFuture<'a, Result<()>>;

    /// Removes a connection from a group.
    fn leave<'a>(&'a self, connection: &'a str, group: &'a str) -> BoxFuture<'a, Result<()>>;

    /// Sends a call that expects a result.
    fn ask<'a>(
        &'a self,
        id: &'a str,
        connection: &'a str,
        payload: HubPayload,
    ) -> BoxFuture<'a, Result<()>>;

    /// A connection has returned a result without a pending call here: the caller may
    /// be a peer node.
    fn answered(&self, connection: &str, id: &str, protocol: Protocol, message: Bytes) {
        let _ = (connection, id, protocol, message);
    }

    /// Sends a framed message to a connection of this backend.
    fn data(&self, connection: &str, message: Bytes);

    /// Waits until a connection of this backend accepts more; `None` if it does now.
    fn room<'a>(&'a self, connection: &'a str) -> Option<BoxFuture<'a, ()>>;

    /// Closes a connection of this backend; it may not reconnect automatically.
    fn close(&self, connection: &str, error: Option<&str>);
}

/// Recipients that a hub sends to.
pub struct Audience {
    pub(crate) reach: Arc<dyn ClientGateway>,
    pub(crate) to: Recipients,
}

impl Audience {
    /// Calls a method of all of them, with a tuple of arguments. There is no result;
    /// clients that are not connected are skipped.
    pub async fn send<T: Serialize + ?Sized>(&self, target: &str, arguments: &T) -> Result<()> {
        let reach = &self.reach;
        let payload = HubPayload::call(reach.protocols(), None, target, arguments)?;
        reach.send(&self.to, payload).await
    }
}

/// A set of protocols.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProtocolSet(u8);

impl ProtocolSet {
    /// Both protocols of hubs in the library.
    pub const BOTH: Self = Self(0b11);

    /// Adds one.
    #[must_use]
    pub fn with(self, protocol: Protocol) -> Self {
        Self(self.0 | 1 << protocol as u8)
    }

    fn has(self, protocol: Protocol) -> bool {
        self.0 & (1 << protocol as u8) != 0
    }
}

/// A framed hub message per protocol. Clones share the bytes.
#[derive(Clone, Debug, Default)]
pub struct HubPayload {
    forms: Vec<(Protocol, Bytes)>,
}

impl HubPayload {
    /// A call of a client method, in these protocols.
    pub fn call<T: Serialize + ?Sized>(
        protocols: ProtocolSet,
        id: Option<&str>,
        target: &str,
        arguments: &T,
    ) -> Result<Self> {
        let mut forms = Vec::new();
        for protocol in [Protocol::Json, Protocol::MessagePack] {
            if protocols.has(protocol) {
                let arguments = write_arguments(protocol, arguments)?;
                let message = write::invocation(protocol, id, target, &arguments);
                forms.push((protocol, message));
            }
        }
        Ok(Self { forms })
    }

    /// A payload of messages that are already framed.
    pub fn of(forms: Vec<(Protocol, Bytes)>) -> Self {
        Self { forms }
    }

    /// The message in a protocol, if it exists.
    pub fn get(&self, protocol: Protocol) -> Option<&Bytes> {
        let mut forms = self.forms.iter();
        let (_, bytes) = forms.find(|(own, _)| *own == protocol)?;
        Some(bytes)
    }

    /// All messages with their protocols.
    pub fn forms(&self) -> &[(Protocol, Bytes)] {
        &self.forms
    }
}

/// Serializes a value.
pub(crate) fn write_value<T: Serialize + ?Sized>(protocol: Protocol, value: &T) -> Result<Bytes> {
    let written = match protocol {
        Protocol::Json => serde_json::to_vec(value).map_err(|error| error.to_string()),
        _ => rmp_serde::to_vec_named(value).map_err(|error| error.to_string()),
    };
    let written = written.map_err(|why| Error::new(ErrorKind::Value(why)))?;
    Ok(Bytes::from(written))
}

/// Serializes the arguments of a call: a tuple, a list, or nothing.
pub(crate) fn write_arguments<T: Serialize + ?Sized>(
    protocol: Protocol,
    arguments: &T,
) -> Result<Bytes> {
    let written = write_value(protocol, arguments)?;
    let (nothing, none, is_list) = match protocol {
        Protocol::Json => (&b"null"[..], &b"[]"[..], written.starts_with(b"[")),
        _ => {
            let first = written.first().copied().unwrap_or(0);
            let is_list = matches!(first, 0x90..=0x9f | 0xdc | 0xdd);
            (&[0xc0][..], &[0x90][..], is_list)
        }
    };
    if written == nothing {
        return Ok(Bytes::from_static(none));
    }
    if is_list {
        Ok(written)
    } else {
        Err(Error::new(ErrorKind::Value(
            "arguments are a tuple, such as (a, b) or (a,)".to_owned(),
        )))
    }
}

/// Deserializes a value.
pub(crate) fn read_value<T: DeserializeOwned>(protocol: Protocol, raw: &[u8]) -> Result<T> {
    let read = match protocol {
        Protocol::Json => serde_json::from_slice(raw).map_err(|error| error.to_string()),
        _ => rmp_serde::from_slice(raw).map_err(|error| error.to_string()),
    };
    read.map_err(|why| Error::new(ErrorKind::Value(why)))
}

/// Bytes as an argument or a result: binary in MessagePack, base64 in JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Binary(pub Vec<u8>);

impl Serialize for Binary {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_str(&STANDARD.encode(&self.0))
        } else {
            serializer.serialize_bytes(&self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Binary {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(BinaryVisitor).map(Self)
    }
}

struct BinaryVisitor;

impl<'de> Visitor<'de> for BinaryVisitor {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("bytes, or base64")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> std::result::Result<Vec<u8>, E> {
        Ok(bytes.to_vec())
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> std::result::Result<Vec<u8>, E> {
        STANDARD.decode(text).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> std::result::Result<Vec<u8>, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = values.next_element::<u8>()? {
            bytes.push(byte);
        }
        if bytes.len() <= steadfast_core::limits::CLIENT_MESSAGE_BYTES {
            Ok(bytes)
        } else {
            Err(A::Error::custom("too many bytes"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_a_list() {
        let json = |value: &dyn Fn() -> Result<Bytes>| value().unwrap();
        assert_eq!(json(&|| write_arguments(Protocol::Json, &())), "[]");
        assert_eq!(
            json(&|| write_arguments(Protocol::Json, &(1, "a"))),
            "[1,\"a\"]"
        );
        assert_eq!(
            json(&|| write_arguments(Protocol::MessagePack, &()))[..],
            [0x90]
        );
        let (json, pack) = (Protocol::Json, Protocol::MessagePack);
        assert_eq!(write_arguments(json, &1).unwrap_err().code().0, "STF-5306");
        assert_eq!(write_arguments(pack, "a").unwrap_err().code().0, "STF-5306");
    }

    #[test]
    fn bytes_survive_both_protocols() {
        let bytes = Binary((0..=255).collect());
        for protocol in [Protocol::Json, Protocol::MessagePack] {
            let written = write_value(protocol, &bytes).unwrap();
            assert_eq!(read_value::<Binary>(protocol, &written).unwrap(), bytes);
        }
        let packed = write_value(Protocol::MessagePack, &bytes).unwrap();
        assert_eq!(packed[..3], [0xc5, 1, 0], "bin, 256 bytes");
    }
}

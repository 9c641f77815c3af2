//! Values in the hub protocols.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::de::{DeserializeOwned, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use steadfast_wire::signalr::Protocol;

use crate::error::{Error, ErrorKind, Result};

/// Serializes a value.
pub(crate) fn write<T: Serialize + ?Sized>(protocol: Protocol, value: &T) -> Result<Bytes> {
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
    let written = write(protocol, arguments)?;
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
pub(crate) fn read<T: DeserializeOwned>(protocol: Protocol, raw: &[u8]) -> Result<T> {
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
            let written = write(protocol, &bytes).unwrap();
            assert_eq!(read::<Binary>(protocol, &written).unwrap(), bytes);
        }
        let packed = write(Protocol::MessagePack, &bytes).unwrap();
        assert_eq!(packed[..3], [0xc5, 1, 0], "bin, 256 bytes");
    }
}

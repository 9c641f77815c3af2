//! The envelope of a stored value.
//!
//! One byte of format, the schema version that was written as a varint, then the
//! record in CBOR. The version is for people and tools; reading does not depend on
//! it, because fields carry numbers. Bytes of a newer format are refused.

use steadfast_core::codec::{self, put_varint};
use steadfast_core::limits::VALUE_BYTES;

use crate::schema::cbor::{CborReader, CborWriter};
use crate::schema::error::{Error, ErrorKind, Result};
use crate::schema::record::Record;

/// The format that is written.
pub const FORMAT: u8 = 1;

/// The stored bytes of a value, without fields newer than `write_version`.
pub fn encode_value<V: Record>(value: &V, write_version: u32) -> Result<Vec<u8>> {
    write(value, write_version).map(|(bytes, _)| bytes)
}

/// The stored bytes of a value, and the value as it will be read from them.
///
/// They differ from `value` where the write version holds a field back. And a value
/// that was read knows which of its newer fields are stored, so that they stay
/// stored when the write version goes back: a cache of values in place of their bytes
/// must keep this one.
pub fn store_value<V: Record>(value: V, write_version: u32) -> Result<(Vec<u8>, V)> {
    let (bytes, is_gated) = write(&value, write_version)?;
    let value = if is_gated {
        decode_value(&bytes)?
    } else {
        value
    };
    Ok((bytes, value))
}

/// The bytes, and whether the write version decided about any field.
fn write<V: Record>(value: &V, write_version: u32) -> Result<(Vec<u8>, bool)> {
    let mut out = Vec::with_capacity(256);
    out.push(FORMAT);
    put_varint(&mut out, u64::from(write_version.min(V::VERSION)));
    let mut to = CborWriter::new(out, write_version);
    value.encode(&mut to);
    let is_gated = to.is_gated();
    let bytes = to.finish()?;
    check_size(&bytes)?;
    Ok((bytes, is_gated))
}

fn check_size(bytes: &[u8]) -> Result<()> {
    if bytes.len() > VALUE_BYTES {
        return Err(Error::new(ErrorKind::TooLarge {
            what: "value",
            bytes: bytes.len(),
            limit: VALUE_BYTES,
        }));
    }
    Ok(())
}

/// The value in stored bytes.
pub fn decode_value<V: Record>(bytes: &[u8]) -> Result<V> {
    let (_, body) = open(bytes)?;
    let mut from = CborReader::new(body);
    let value = V::decode(&mut from)?;
    from.finish()?;
    Ok(value)
}

/// The schema version and the CBOR of a stored value.
pub fn open(bytes: &[u8]) -> Result<(u32, &[u8])> {
    check_size(bytes)?;
    let (&format, rest) = bytes
        .split_first()
        .ok_or_else(|| Error::malformed("there are none"))?;
    if format != FORMAT {
        return Err(Error::new(ErrorKind::NewerFormat {
            found: format,
            known: FORMAT,
        }));
    }
    let (version, length) = varint(rest)?;
    Ok((version, &rest[length..]))
}

/// A varint of at most 32 bits at the front of `bytes`, and its length.
fn varint(bytes: &[u8]) -> Result<(u32, usize)> {
    let mut value = 0u64;
    for (index, &byte) in bytes.iter().take(5).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            let value =
                u32::try_from(value).map_err(|error| Error::caused(version_kind(), error))?;
            return Ok((value, index + 1));
        }
    }
    Err(Error::caused(version_kind(), codec::DecodeError))
}

fn version_kind() -> ErrorKind {
    ErrorKind::Malformed {
        path: String::new(),
        what: "the schema version in the envelope is not a number".to_owned(),
    }
}

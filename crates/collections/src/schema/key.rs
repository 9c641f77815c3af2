//! The trait of everything that can be a key.
//!
//! The bytes of a key sort as the key itself sorts, and they are the same in every
//! version of the code and on every platform. `#[derive(Key)]` gives it to
//! a struct. A key is a record too, so it can stand inside values.

use std::hash::Hash;

use steadfast_core::limits::KEY_BYTES;

use crate::schema::error::{Error, ErrorKind, Result};
use crate::schema::ordered::{KeyReader, KeyWriter};
use crate::schema::record::Record;

/// A key: its order, equality and bytes agree and never change.
///
/// Implemented for strings, integers, truth values, bytes, UUIDs, timestamps,
/// durations, tuples of these and every struct that derives it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a key",
    label = "not a `Key`",
    note = "keys are strings, integers, truth values, bytes, UUIDs, timestamps, durations, tuples of these, and structs with `#[derive(Key)]`",
    note = "floats are no keys, because they have no total order"
)]
pub trait Key: Record + Ord + Hash + Clone {
    /// Writes the key as one element.
    #[doc(hidden)]
    fn write(&self, to: &mut KeyWriter);

    #[doc(hidden)]
    fn read(from: &mut KeyReader<'_>) -> Result<Self>;

    /// Writes the key as a whole row.
    #[doc(hidden)]
    fn write_row(&self, to: &mut KeyWriter) {
        self.write(to);
    }

    #[doc(hidden)]
    fn read_row(from: &mut KeyReader<'_>) -> Result<Self> {
        Self::read_field(from, "key")
    }

    /// Reads one field of a row, which may have ended before it.
    #[doc(hidden)]
    fn read_field(from: &mut KeyReader<'_>, field: &'static str) -> Result<Self> {
        if from.more() {
            return Self::read(from).map_err(|error| error.within(field));
        }
        Self::missing().ok_or_else(|| {
            Error::new(ErrorKind::MissingField {
                path: String::new(),
                field,
            })
        })
    }
}

/// The stored bytes of a key.
pub fn encode_key<K: Key>(key: &K) -> Result<Vec<u8>> {
    let mut to = KeyWriter::new();
    key.write_row(&mut to);
    to.finish()
}

/// The key in stored bytes.
pub fn decode_key<K: Key>(bytes: &[u8]) -> Result<K> {
    if bytes.len() > KEY_BYTES {
        return Err(Error::new(ErrorKind::TooLarge {
            what: "key",
            bytes: bytes.len(),
            limit: KEY_BYTES,
        }));
    }
    let mut from = KeyReader::new(bytes);
    let key = K::read_row(&mut from)?;
    from.finish()?;
    Ok(key)
}

//! What values and keys look like in storage.
//!
//! A value is a [`Record`]: a CBOR map with numbers for names, behind a small
//! envelope. A key is a [`Key`]: bytes that sort as the key itself sorts. Code of
//! an older version carries fields that it does not know through a change of the
//! record, byte for byte.

mod calendar;
pub mod cbor;
mod container;
pub mod contract;
mod derived;
pub mod envelope;
pub mod error;
pub mod json;
pub mod key;
mod key_types;
pub mod msgpack;
pub mod ordered;
pub mod record;
pub mod render;
mod scalar;
pub mod unknown;
pub mod version;

pub use contract::check_keys;
pub use envelope::{decode_value, encode_value, store_value};
pub use error::{Error, Kind};
pub use json::Json;
pub use key::{Key, decode_key, encode_key};
pub use msgpack::Msgpack;
pub use record::Record;
pub use render::{json_to_key, key_to_json, value_to_json};
pub use steadfast_macros::{Key, Record};
pub use unknown::{Unknown, UnknownVariant};
pub use version::WriteVersion;

/// What derived code names, and nobody else.
#[doc(hidden)]
pub mod __private {
    pub use super::cbor::{Reader, Writer, weave};
    pub use super::derived::{closed, closed_variant, end_closed_key, or_missing, within};
    pub use super::error::Result;
    pub use super::key::Key;
    pub use super::key_types::{
        decode_in_value as decode_key_in_value, encode_in_value as encode_key_in_value,
    };
    pub use super::ordered::{KeyReader, KeyWriter};
    pub use super::record::{Record, Seal};
    pub use super::unknown::{Gather, Unknown};
}

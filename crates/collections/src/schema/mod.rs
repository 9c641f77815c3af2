//! The stored form of values and keys.
//!
//! A value is a [`Record`]: a CBOR map with numbers for names, behind a small
//! envelope. A key is a [`Key`]: bytes that sort as the key itself sorts. Code of
//! an older version carries fields that it does not know through a change of the
//! record, byte for byte.
//!
//! ```
//! use steadfast_collections::schema::{Record, Unknown, decode_value, encode_value};
//!
//! mod old {
//!     # use steadfast_collections::schema::{Record, Unknown};
//!     #[derive(Record, Clone)]
//!     # #[record(crate = "steadfast_collections")]
//!     pub struct House {
//!         #[n(0)]
//!         pub name: String,
//!         /// Where fields of newer code are kept.
//!         pub unknown: Unknown,
//!     }
//! }
//!
//! #[derive(Record)]
//! # #[record(crate = "steadfast_collections")]
//! struct House {
//!     #[n(0)]
//!     name: String,
//!     /// Written from write version 2 on; older values do not have it.
//!     #[n(1)]
//!     #[record(since = 2)]
//!     warmth: Option<f64>,
//!     unknown: Unknown,
//! }
//!
//! let new = House { name: "seven".into(), warmth: Some(21.5), unknown: Unknown::NONE };
//! let stored = encode_value(&new, 2)?;
//!
//! // Older code reads, changes and writes the value.
//! let read: old::House = decode_value(&stored)?;
//! let changed = old::House { name: "eight".into(), ..read.evolve() };
//! let stored = encode_value(&changed, 1)?;
//!
//! let again: House = decode_value(&stored)?;
//! assert_eq!((again.name.as_str(), again.warmth), ("eight", Some(21.5)));
//! # Ok::<(), steadfast_collections::schema::Error>(())
//! ```

pub mod argument;
mod calendar;
pub mod cbor;
mod container;
pub mod contract;
mod derive_support;
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

pub use argument::{AsKey, IntoRecord};
pub use contract::check_keys;
pub use envelope::{decode_value, encode_value, store_value};
pub use error::{Error, ErrorKind};
pub use json::Json;
pub use key::{Key, decode_key, encode_key};
pub use msgpack::Msgpack;
pub use record::Record;
pub use render::{json_to_key, key_to_json, value_to_json};
pub use steadfast_macros::{Key, Record};
pub use unknown::{Unknown, UnknownVariant};
pub use version::WriteVersion;

/// The names that only derived code uses.
#[doc(hidden)]
pub mod __private {
    pub use super::cbor::{CborReader, CborWriter, weave};
    pub use super::derive_support::{closed, closed_variant, end_closed_key, or_missing, within};
    pub use super::error::Result;
    pub use super::key::Key;
    pub use super::key_types::{
        decode_in_value as decode_key_in_value, encode_in_value as encode_key_in_value,
    };
    pub use super::ordered::{KeyReader, KeyWriter};
    pub use super::record::{Record, Seal};
    pub use super::unknown::{Unknown, UnknownCollector};
}

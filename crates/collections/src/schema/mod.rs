//! What values and keys look like in storage.
//!
//! A value is a [`Record`]: a CBOR map with numbers for names, behind a small
//! envelope. A key is a [`Key`]: bytes that sort as the key itself sorts. Code of
//! an older version carries fields that it does not know through a change of the
//! record, byte for byte.

pub mod cbor;
mod container;
pub mod contract;
pub mod envelope;
pub mod error;
pub mod key;
mod key_types;
pub mod ordered;
pub mod record;
mod scalar;
pub mod unknown;
pub mod version;

pub use contract::check_keys;
pub use envelope::{decode_value, encode_value};
pub use error::{Error, Kind};
pub use key::{Key, decode_key, encode_key};
pub use record::Record;
pub use unknown::{Unknown, UnknownVariant};
pub use version::WriteVersion;

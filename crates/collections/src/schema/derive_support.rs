//! Functions that derived code calls.
//!
//! The small steps that every derived type shares, so that generated code stays
//! short. Not public API: the hidden module `__private` exports them.

use crate::schema::error::{Error, ErrorKind, Result};
use crate::schema::ordered::KeyReader;

/// The result of reading a field; an error gets the path of the field.
pub fn within<T>(read: Result<T>, path: &'static str) -> Result<T> {
    read.map_err(|error| error.within(path))
}

/// The value of a field that is not in the bytes, if its type has one.
pub fn or_missing<T>(value: Option<T>, owner: &'static str, field: &'static str) -> Result<T> {
    value.ok_or_else(|| {
        Error::new(ErrorKind::MissingField {
            path: owner.to_owned(),
            field,
        })
    })
}

/// A closed record met a field that it does not know.
#[cold]
pub fn closed(owner: &'static str, number: u64) -> Error {
    Error::new(ErrorKind::Closed {
        path: owner.to_owned(),
        found: format!("field {number}"),
    })
}

/// A closed enum met a variant that it does not know.
#[cold]
pub fn closed_variant(owner: &'static str, number: u64) -> Error {
    Error::new(ErrorKind::Closed {
        path: owner.to_owned(),
        found: format!("variant {number}"),
    })
}

/// Fails if a closed key has more fields than the code knows.
pub fn end_closed_key(from: &KeyReader<'_>, owner: &'static str) -> Result<()> {
    if from.more() {
        return Err(Error::new(ErrorKind::Closed {
            path: owner.to_owned(),
            found: "another field of the key".to_owned(),
        }));
    }
    Ok(())
}

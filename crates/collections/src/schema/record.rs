//! The trait of everything that can be stored.
//!
//! Applications implement it with `#[derive(Record)]`; the methods are hidden because
//! only the derive and this crate supply them. A record has no interior mutability, so
//! that a shared reference to a stored value can never change what is stored.

use crate::schema::cbor::{CborReader, CborWriter};
use crate::schema::error::Result;

/// A value that can be stored, now and by code of other versions.
///
/// Implemented for strings, integers, floats, truth values, bytes, UUIDs,
/// timestamps, durations, options, lists, maps and every type that derives it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be stored: it is not a `Record`",
    label = "not a `Record`",
    note = "derive it: `#[derive(Record)]`; a type that serde knows can be wrapped in `Msgpack<..>`",
    note = "a type with interior mutability (`Cell`, `RefCell`, `Mutex`, `RwLock`, `Atomic..`, `OnceLock`) is never a `Record`: a reference to a stored value could be used to change it behind the transaction's back"
)]
pub trait Record: Send + Sync + Sized + 'static {
    /// The newest schema version that this code knows of the type.
    const VERSION: u32 = 1;

    /// Whether the encoding may be null, so that an option of it would be ambiguous.
    #[doc(hidden)]
    const NULLABLE: bool = false;

    /// Only the derive and this crate can supply this.
    #[doc(hidden)]
    fn __seal() -> Seal;

    /// The name of the type in the metadata of a collection.
    fn type_name() -> String;

    #[doc(hidden)]
    fn encode(&self, to: &mut CborWriter);

    #[doc(hidden)]
    fn decode(from: &mut CborReader<'_>) -> Result<Self>;

    /// Whether a record leaves out a field that has this value.
    #[doc(hidden)]
    fn is_absent(&self) -> bool {
        false
    }

    /// The value of a field that is not in the bytes.
    #[doc(hidden)]
    fn missing() -> Option<Self> {
        None
    }

    /// The name of a list of this type.
    #[doc(hidden)]
    fn list_name() -> String {
        format!("list<{}>", Self::type_name())
    }

    /// A list; bytes have an encoding of their own.
    #[doc(hidden)]
    fn encode_list(list: &[Self], to: &mut CborWriter) {
        if !to.enter() {
            return;
        }
        to.array(list.len());
        for element in list {
            element.encode(to);
        }
        to.leave();
    }

    #[doc(hidden)]
    fn decode_list(from: &mut CborReader<'_>) -> Result<Vec<Self>> {
        from.nested(|from| {
            let length = from.array()?;
            let mut list = Vec::with_capacity(CborReader::reserve(length));
            for _ in 0..length {
                list.push(Self::decode(from)?);
            }
            Ok(list)
        })
    }

    /// Copies from `old` the fields that this code does not know, where `self` was built
    /// without it: in the record itself and in nested records in the same place. Elements
    /// of lists have no place of their own; they keep what they carry.
    #[doc(hidden)]
    fn inherit(&mut self, old: &Self) {
        let _ = old;
    }

    /// A copy to start a changed value from, with everything that this code does
    /// not know: `House { warmth: 21.5, ..old.evolve() }`.
    fn evolve(&self) -> Self
    where
        Self: Clone,
    {
        self.clone()
    }
}

/// Proof that an implementation comes from the derive or this crate.
#[doc(hidden)]
#[derive(Debug)]
pub struct Seal(());

impl Seal {
    /// For the derive.
    #[doc(hidden)]
    pub const fn by_derive() -> Self {
        Self(())
    }
}

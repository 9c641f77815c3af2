//! Existing serde types as values.
//!
//! A [`Msgpack`] holds bytes, not the value: so it does not matter whether the type
//! has interior mutability, and what is only passed on keeps its bytes. Structs are
//! written with the names of their fields. serde drops fields that a type does not
//! know, so a type that will evolve collects them with `#[serde(flatten)]`.

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use steadfast_core::limits::RECORD_DEPTH;

use crate::schema::cbor::{CborReader, CborWriter};
use crate::schema::error::{Error, ErrorKind, Result};
use crate::schema::record::{Record, Seal};

/// Not registered: a byte string with MessagePack in it ("STFM").
pub(crate) const TAG_MSGPACK: u64 = 0x5354_464d;

/// A value of a type that serde knows, as MessagePack.
///
/// ```
/// use std::collections::BTreeMap;
/// use serde::{Deserialize, Serialize};
/// use steadfast_collections::schema::Msgpack;
///
/// #[derive(Serialize, Deserialize)]
/// struct House {
///     name: String,
///     /// What newer code wrote.
///     #[serde(flatten)]
///     unknown: BTreeMap<String, serde_json::Value>,
/// }
///
/// let house = House { name: "seven".into(), unknown: BTreeMap::new() };
/// let packed = Msgpack::new(&house)?;
/// assert_eq!(packed.open()?.name, "seven");
/// # Ok::<(), steadfast_collections::schema::Error>(())
/// ```
pub struct Msgpack<T> {
    bytes: Bytes,
    // Nothing of the type is held, so none of its traits matter.
    of: PhantomData<fn() -> T>,
}

impl<T: Serialize + DeserializeOwned + 'static> Msgpack<T> {
    /// Packs a value.
    pub fn new(value: &T) -> Result<Self> {
        let bytes = rmp_serde::to_vec_named(value)
            .map_err(|error| Error::caused(adaptor::<T>("writing"), error))?;
        Ok(Self {
            bytes: bytes.into(),
            of: PhantomData,
        })
    }

    /// Unpacks the value: a new one each time, the caller's own.
    pub fn open(&self) -> Result<T> {
        let mut from = rmp_serde::Deserializer::from_read_ref(self.bytes.as_ref());
        from.set_max_depth(RECORD_DEPTH);
        T::deserialize(&mut from).map_err(|error| Error::caused(adaptor::<T>("reading"), error))
    }

    /// The MessagePack.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

fn adaptor<T>(doing: &'static str) -> ErrorKind {
    ErrorKind::Adaptor {
        type_name: type_name::<T>(),
        doing,
    }
}

impl<T: Serialize + DeserializeOwned + 'static> Record for Msgpack<T> {
    fn __seal() -> Seal {
        Seal::by_derive()
    }

    /// The codec only: a Rust path would change when a module is renamed.
    fn type_name() -> String {
        "msgpack".to_owned()
    }

    fn encode(&self, to: &mut CborWriter) {
        to.tag(TAG_MSGPACK);
        to.bytes(&self.bytes);
    }

    fn decode(from: &mut CborReader<'_>) -> Result<Self> {
        from.expect_tag(TAG_MSGPACK)?;
        Ok(Self {
            bytes: Bytes::copy_from_slice(from.bytes()?),
            of: PhantomData,
        })
    }
}

impl<T> Clone for Msgpack<T> {
    fn clone(&self) -> Self {
        Self {
            bytes: self.bytes.clone(),
            of: PhantomData,
        }
    }
}

/// Equal if the bytes are.
impl<T> PartialEq for Msgpack<T> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl<T> Eq for Msgpack<T> {}

impl<T> fmt::Debug for Msgpack<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Msgpack<{}>({} bytes)",
            type_name::<T>(),
            self.bytes.len()
        )
    }
}

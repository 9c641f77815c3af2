//! Keys of the plain types, and tuples of keys.
//!
//! A tuple or derived key inside a value is a byte string of its ordered bytes,
//! under a tag of our own, so that it keeps what it carries.

use std::time::Duration;

use bytes::Bytes;
use steadfast_core::clock::Timestamp;
use uuid::Uuid;

use crate::schema::cbor::{CborReader, CborWriter};
use crate::schema::error::{Error, Result};
use crate::schema::key::{Key, decode_key, encode_key};
use crate::schema::ordered::{KeyReader, KeyWriter};
use crate::schema::record::{Record, Seal};

/// Not registered: a byte string with an ordered key in it ("STFK").
pub(crate) const TAG_KEY: u64 = 0x5354_464b;

/// For the derive: a key inside a value.
#[doc(hidden)]
pub fn encode_in_value<K: Key>(key: &K, to: &mut CborWriter) {
    match encode_key(key) {
        Ok(bytes) => {
            to.tag(TAG_KEY);
            to.bytes(&bytes);
        }
        Err(error) => to.fail(error),
    }
}

/// For the derive: a key inside a value.
#[doc(hidden)]
pub fn decode_in_value<K: Key>(from: &mut CborReader<'_>) -> Result<K> {
    from.expect_tag(TAG_KEY)?;
    decode_key(from.bytes()?)
}

macro_rules! keys {
    ($($type:ty, |$key:ident, $to:ident| $write:expr, |$from:ident| $read:expr;)*) => {$(
        impl Key for $type {
            fn write(&self, $to: &mut KeyWriter) {
                let $key = self;
                $write;
            }

            fn read($from: &mut KeyReader<'_>) -> Result<Self> {
                $read
            }
        }
    )*};
}

fn integer<T: TryFrom<i128>>(from: &mut KeyReader<'_>) -> Result<T> {
    let wide = from.integer()?;
    T::try_from(wide)
        .map_err(|_| Error::malformed(format!("{wide} does not fit into the integer of the key")))
}

keys! {
    u8, |key, to| to.unsigned(u64::from(*key)), |from| integer(from);
    u16, |key, to| to.unsigned(u64::from(*key)), |from| integer(from);
    u32, |key, to| to.unsigned(u64::from(*key)), |from| integer(from);
    u64, |key, to| to.unsigned(*key), |from| integer(from);
    i8, |key, to| to.signed(i64::from(*key)), |from| integer(from);
    i16, |key, to| to.signed(i64::from(*key)), |from| integer(from);
    i32, |key, to| to.signed(i64::from(*key)), |from| integer(from);
    i64, |key, to| to.signed(*key), |from| integer(from);
    bool, |key, to| to.bool(*key), |from| from.bool();
    String, |key, to| to.text(key), |from| from.text();
    Vec<u8>, |key, to| to.bytes(key), |from| from.bytes();
    Bytes, |key, to| to.bytes(key), |from| from.bytes().map(Bytes::from);
    Uuid, |key, to| to.uuid(key.as_bytes()), |from| from.uuid().map(Uuid::from_bytes);
    Timestamp, |key, to| to.time(key.0), |from| from.time().map(Timestamp);
    Duration, |key, to| to.duration(key.as_secs(), key.subsec_nanos()),
        |from| from.duration().map(|(seconds, nanos)| Duration::new(seconds, nanos));
}

/// Absent sorts before every value, as `None` does.
impl<K: Key> Key for Option<K> {
    fn write(&self, to: &mut KeyWriter) {
        match self {
            Some(key) => key.write(to),
            None => to.absent(),
        }
    }

    fn read(from: &mut KeyReader<'_>) -> Result<Self> {
        if from.take_absent() {
            return Ok(None);
        }
        K::read(from).map(Some)
    }
}

macro_rules! tuples {
    ($($($part:ident $index:tt $field:literal),+;)*) => {$(
        impl<$($part: Key),+> Record for ($($part,)+) {
            fn __seal() -> Seal {
                Seal::by_derive()
            }

            fn type_name() -> String {
                let parts = [$($part::type_name()),+];
                format!("({})", parts.join(", "))
            }

            fn encode(&self, to: &mut CborWriter) {
                encode_in_value(self, to);
            }

            fn decode(from: &mut CborReader<'_>) -> Result<Self> {
                decode_in_value(from)
            }
        }

        impl<$($part: Key),+> Key for ($($part,)+) {
            fn write(&self, to: &mut KeyWriter) {
                to.row(|to| self.write_row(to));
            }

            fn read(from: &mut KeyReader<'_>) -> Result<Self> {
                from.row(Self::read_row)
            }

            fn write_row(&self, to: &mut KeyWriter) {
                $(self.$index.write(to);)+
            }

            fn read_row(from: &mut KeyReader<'_>) -> Result<Self> {
                Ok(($($part::read_field(from, $field)?,)+))
            }
        }
    )*};
}

tuples! {
    A 0 "0";
    A 0 "0", B 1 "1";
    A 0 "0", B 1 "1", C 2 "2";
    A 0 "0", B 1 "1", C 2 "2", D 3 "3";
}

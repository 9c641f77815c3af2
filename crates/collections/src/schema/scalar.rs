//! Records without fields: numbers, texts, times.
//!
//! Integers share one encoding, so that a field may become wider. Times and UUIDs
//! carry a registered tag, so that tools without the type can show them.

use std::time::Duration;

use bytes::Bytes;
use steadfast_core::clock::Timestamp;
use uuid::Uuid;

use crate::schema::cbor::{CborReader, CborWriter};
use crate::schema::error::{Error, Result};
use crate::schema::record::{Record, Seal};

/// The registered tag of a UUID.
pub(crate) const TAG_UUID: u64 = 37;
/// The registered tag of a time with its fractions (RFC 9581).
pub(crate) const TAG_TIME: u64 = 1001;
/// The registered tag of a duration (RFC 9581).
pub(crate) const TAG_DURATION: u64 = 1002;

/// Keys in the map of a time or duration: seconds, milliseconds, nanoseconds.
const SECONDS: i64 = 1;
const MILLIS: i64 = -3;
const NANOS: i64 = -9;

macro_rules! integers {
    ($($type:ty, $name:literal, $write:ident, $wide:ty, { $($list:item)* };)*) => {$(
        impl Record for $type {
            fn __seal() -> Seal {
                Seal::by_derive()
            }

            fn type_name() -> String {
                $name.to_owned()
            }

            fn encode(&self, to: &mut CborWriter) {
                to.$write(<$wide>::from(*self));
            }

            fn decode(from: &mut CborReader<'_>) -> Result<Self> {
                let wide = from.$write()?;
                Self::try_from(wide).map_err(|_| {
                    Error::malformed(format!("{wide} does not fit into {}", $name))
                })
            }

            $($list)*
        }
    )*};
}

integers! {
    u8, "u8", unsigned, u64, {
        fn list_name() -> String {
            "bytes".to_owned()
        }

        fn encode_list(list: &[u8], to: &mut CborWriter) {
            to.bytes(list);
        }

        fn decode_list(from: &mut CborReader<'_>) -> Result<Vec<u8>> {
            from.bytes().map(<[u8]>::to_vec)
        }
    };
    u16, "u16", unsigned, u64, {};
    u32, "u32", unsigned, u64, {};
    u64, "u64", unsigned, u64, {};
    i8, "i8", signed, i64, {};
    i16, "i16", signed, i64, {};
    i32, "i32", signed, i64, {};
    i64, "i64", signed, i64, {};
}

macro_rules! scalars {
    ($($type:ty, $name:literal, $write:ident, $to:expr, $read:ident, $from:expr;)*) => {$(
        impl Record for $type {
            fn __seal() -> Seal {
                Seal::by_derive()
            }

            fn type_name() -> String {
                $name.to_owned()
            }

            fn encode(&self, to: &mut CborWriter) {
                to.$write($to(self));
            }

            fn decode(from: &mut CborReader<'_>) -> Result<Self> {
                from.$read().map($from)
            }
        }
    )*};
}

scalars! {
    bool, "bool", bool, |value: &bool| *value, bool, |value| value;
    f32, "f32", f32, |value: &f32| *value, f32, |value| value;
    f64, "f64", f64, |value: &f64| *value, f64, |value| value;
    String, "string", text, String::as_str, text, str::to_owned;
    Bytes, "bytes", bytes, AsRef::as_ref, bytes, Bytes::copy_from_slice;
}

impl<const N: usize> Record for [u8; N] {
    fn __seal() -> Seal {
        Seal::by_derive()
    }

    fn type_name() -> String {
        "bytes".to_owned()
    }

    fn encode(&self, to: &mut CborWriter) {
        to.bytes(self);
    }

    fn decode(from: &mut CborReader<'_>) -> Result<Self> {
        let bytes = from.bytes()?;
        Self::try_from(bytes)
            .map_err(|_| Error::malformed(format!("{} bytes instead of {N}", bytes.len())))
    }
}

impl Record for () {
    const NULLABLE: bool = true;

    fn __seal() -> Seal {
        Seal::by_derive()
    }

    fn type_name() -> String {
        "unit".to_owned()
    }

    fn encode(&self, to: &mut CborWriter) {
        to.null();
    }

    fn decode(from: &mut CborReader<'_>) -> Result<Self> {
        if from.take_null()? {
            return Ok(());
        }
        Err(Error::malformed("expected null"))
    }
}

impl Record for Uuid {
    fn __seal() -> Seal {
        Seal::by_derive()
    }

    fn type_name() -> String {
        "uuid".to_owned()
    }

    fn encode(&self, to: &mut CborWriter) {
        to.tag(TAG_UUID);
        to.bytes(self.as_bytes());
    }

    fn decode(from: &mut CborReader<'_>) -> Result<Self> {
        from.expect_tag(TAG_UUID)?;
        Self::from_slice(from.bytes()?).map_err(|_| Error::malformed("a UUID has 16 bytes"))
    }
}

impl Record for Timestamp {
    fn __seal() -> Seal {
        Seal::by_derive()
    }

    fn type_name() -> String {
        "timestamp".to_owned()
    }

    fn encode(&self, to: &mut CborWriter) {
        to.tag(TAG_TIME);
        let millis = self.0.rem_euclid(1000);
        to.map(1 + usize::from(millis != 0));
        to.signed(SECONDS);
        to.signed(self.0.div_euclid(1000));
        if millis != 0 {
            to.signed(MILLIS);
            to.signed(millis);
        }
    }

    fn decode(from: &mut CborReader<'_>) -> Result<Self> {
        let (seconds, more) = seconds(from, TAG_TIME, MILLIS, CborReader::signed)?;
        let millis = if more { fraction(from, 1000)? } else { 0 };
        let millis = i128::from(seconds) * 1000 + i128::from(millis);
        i64::try_from(millis)
            .map(Self)
            .map_err(|_| Error::malformed("the time is out of range"))
    }
}

impl Record for Duration {
    fn __seal() -> Seal {
        Seal::by_derive()
    }

    fn type_name() -> String {
        "duration".to_owned()
    }

    fn encode(&self, to: &mut CborWriter) {
        to.tag(TAG_DURATION);
        let nanos = self.subsec_nanos();
        to.map(1 + usize::from(nanos != 0));
        to.signed(SECONDS);
        to.unsigned(self.as_secs());
        if nanos != 0 {
            to.signed(NANOS);
            to.unsigned(u64::from(nanos));
        }
    }

    fn decode(from: &mut CborReader<'_>) -> Result<Self> {
        let (seconds, more) = seconds(from, TAG_DURATION, NANOS, CborReader::unsigned)?;
        let nanos = if more {
            fraction(from, 1_000_000_000)?
        } else {
            0
        };
        Ok(Self::new(seconds, nanos))
    }
}

/// Reads the tag and the seconds: whether fractions named `fraction` follow.
fn seconds<'b, T>(
    from: &mut CborReader<'b>,
    tag: u64,
    fraction: i64,
    read: impl FnOnce(&mut CborReader<'b>) -> Result<T>,
) -> Result<(T, bool)> {
    from.expect_tag(tag)?;
    let length = from.map()?;
    if !(1..=2).contains(&length) || from.signed()? != SECONDS {
        return Err(Error::malformed("a time starts with its seconds"));
    }
    let seconds = read(from)?;
    if length == 2 && from.signed()? != fraction {
        return Err(Error::malformed(
            "fractions of another unit follow the seconds",
        ));
    }
    Ok((seconds, length == 2))
}

/// Reads a fraction of a second below `limit`.
fn fraction(from: &mut CborReader<'_>, limit: u32) -> Result<u32> {
    let fraction = from.unsigned()?;
    match u32::try_from(fraction) {
        Ok(fraction) if fraction < limit => Ok(fraction),
        _ => Err(Error::malformed("the fraction of a second is out of range")),
    }
}

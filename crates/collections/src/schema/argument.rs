//! What operations accept for keys and values.
//!
//! A key is only encoded, never kept, so an operation takes it by value or by reference,
//! and a text as `&str`: no `String` is made for it. A value is kept; whatever becomes one
//! without loss is accepted.
//!
//! `Borrow` and `Into` of the standard library do not serve here. A foreign type may
//! implement `Borrow` with another encoding, and would not find what was stored; `Into`
//! leaves the type of a literal open, so that `set(&mut tx, 7, 90)` would not compile for
//! integers other than `i32`. These traits are fixed by the type of the collection.

use bytes::Bytes;

use crate::schema::key::Key;
use crate::schema::ordered::KeyWriter;
use crate::schema::record::Record;
use crate::stored_value::StoredValue;

/// The key of an operation on a dictionary with keys of type `K`: a `K`, a reference to
/// one, or a borrowed form of it, such as `&str` for `String`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no key of a dictionary whose keys are `{K}`",
    label = "not a `{K}`, nor a reference to one",
    note = "a key is given by value or by reference; `&str` stands for `String`, `&[u8]` for `Vec<u8>` and `Bytes`"
)]
pub trait AsKey<K>: Send {
    #[doc(hidden)]
    fn write_key(&self, to: &mut KeyWriter);
}

impl<K: Key> AsKey<K> for K {
    fn write_key(&self, to: &mut KeyWriter) {
        self.write_row(to);
    }
}

impl<K: Key> AsKey<K> for &K {
    fn write_key(&self, to: &mut KeyWriter) {
        self.write_row(to);
    }
}

impl<K: Key> AsKey<K> for &StoredValue<K> {
    fn write_key(&self, to: &mut KeyWriter) {
        self.write_row(to);
    }
}

impl AsKey<String> for &str {
    fn write_key(&self, to: &mut KeyWriter) {
        to.text(self);
    }
}

/// What an operation stores as a `V`: a `V`, or what becomes one, such as `&str` for
/// `String`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be stored as `{V}`",
    label = "not a `{V}`",
    note = "a value is given as what is stored; `&str` becomes a `String`, `&[u8]` a `Vec<u8>` or `Bytes`"
)]
pub trait IntoRecord<V>: Send {
    #[doc(hidden)]
    fn into_record(self) -> V;
}

impl<V: Record> IntoRecord<V> for V {
    fn into_record(self) -> V {
        self
    }
}

impl IntoRecord<String> for &str {
    fn into_record(self) -> String {
        self.to_owned()
    }
}

impl IntoRecord<Bytes> for Vec<u8> {
    fn into_record(self) -> Bytes {
        self.into()
    }
}

macro_rules! bytes {
    ($($owned:ty)*) => {$(
        impl AsKey<$owned> for &[u8] {
            fn write_key(&self, to: &mut KeyWriter) {
                to.bytes(self);
            }
        }

        impl<const N: usize> AsKey<$owned> for &[u8; N] {
            fn write_key(&self, to: &mut KeyWriter) {
                to.bytes(*self);
            }
        }

        impl IntoRecord<$owned> for &[u8] {
            fn into_record(self) -> $owned {
                self.to_vec().into()
            }
        }

        impl<const N: usize> IntoRecord<$owned> for &[u8; N] {
            fn into_record(self) -> $owned {
                self.to_vec().into()
            }
        }
    )*};
}

bytes! { Vec<u8> Bytes }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::key::encode_key;

    #[expect(clippy::needless_pass_by_value, reason = "as operations take keys")]
    fn written<K>(key: impl AsKey<K>) -> Vec<u8> {
        let mut to = KeyWriter::new();
        key.write_key(&mut to);
        to.finish().unwrap()
    }

    #[test]
    fn every_form_of_a_key_has_the_same_bytes() {
        let text = "with \0 in it".to_owned();
        let stored = encode_key(&text).unwrap();
        assert_eq!(written::<String>(text.as_str()), stored);
        assert_eq!(written::<String>(&text), stored);
        assert_eq!(written::<String>(text), stored);

        let bytes = vec![0u8, 255, 0, 1];
        let stored = encode_key(&bytes).unwrap();
        assert_eq!(written::<Vec<u8>>(&bytes[..]), stored);
        assert_eq!(written::<Vec<u8>>(&[0u8, 255, 0, 1]), stored);
        assert_eq!(written::<Bytes>(&bytes[..]), stored);
        assert_eq!(written::<Bytes>(Bytes::from(bytes)), stored);

        assert_eq!(written::<u64>(7), encode_key(&7u64).unwrap());
        assert_eq!(written::<u64>(&7), encode_key(&7u64).unwrap());
    }

    #[test]
    fn every_form_of_a_value_becomes_the_value() {
        let text: String = "seven".into_record();
        assert_eq!(text, "seven");
        let bytes: Bytes = vec![1u8, 2].into_record();
        let same: Bytes = (&[1u8, 2][..]).into_record();
        assert_eq!(bytes, same);
        let bytes: Vec<u8> = (&[1u8, 2]).into_record();
        assert_eq!(bytes, [1, 2]);
    }
}

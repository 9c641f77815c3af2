//! The bytes of keys: their order, and what never changes.

use std::time::Duration;

use proptest::prelude::*;
use steadfast::schema::{
    ErrorKind, Key, Unknown, WriteVersion, check_keys, decode_key, decode_value, encode_key,
    encode_value,
};
use steadfast_core::clock::Timestamp;
use uuid::Uuid;

mod v1 {
    use super::*;

    #[derive(Key, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub(super) struct Place {
        #[n(0)]
        pub(super) city: String,
        #[n(1)]
        pub(super) number: i32,
        pub(super) unknown: Unknown,
    }
}

mod v2 {
    use super::*;

    #[derive(Key, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub(super) struct Place {
        #[n(0)]
        pub(super) city: String,
        #[n(1)]
        pub(super) number: i32,
        #[n(2)]
        pub(super) stairs: Option<String>,
        #[n(3)]
        pub(super) floor: Option<(i8, bool)>,
        pub(super) unknown: Unknown,
    }
}

#[derive(Key, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[record(transparent)]
struct Name(String);

#[derive(Key, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[record(closed)]
struct Nested {
    #[n(0)]
    place: v2::Place,
    #[n(1)]
    after: u64,
}

fn place() -> impl Strategy<Value = v2::Place> {
    let stairs = proptest::option::of(text());
    let floor = proptest::option::of((any::<i8>(), any::<bool>()));
    (text(), any::<i32>(), stairs, floor).prop_map(|(city, number, stairs, floor)| v2::Place {
        city,
        number,
        stairs,
        floor,
        unknown: Unknown::NONE,
    })
}

/// Texts that share beginnings and hold zeros, where order is easy to get wrong.
fn text() -> impl Strategy<Value = String> {
    proptest::collection::vec(
        prop_oneof![
            Just('\0'),
            Just('\u{1}'),
            Just('a'),
            Just('ÿ'),
            any::<char>()
        ],
        0..4,
    )
    .prop_map(|letters| letters.into_iter().collect())
}

fn same_order<K: Key + std::fmt::Debug>(a: &K, b: &K) -> Result<(), TestCaseError> {
    let (x, y) = (encode_key(a).unwrap(), encode_key(b).unwrap());
    prop_assert_eq!(x.cmp(&y), a.cmp(b), "{:?} and {:?}", a, b);
    prop_assert_eq!(&decode_key::<K>(&x).unwrap(), a);
    let stored = encode_value(a, WriteVersion::LATEST).unwrap();
    prop_assert_eq!(&decode_value::<K>(&stored).unwrap(), a);
    Ok(())
}

/// Integers of every size, near the places where their length changes.
fn integer() -> impl Strategy<Value = i64> {
    (any::<i64>(), 0..64u32).prop_map(|(value, shift)| value >> shift)
}

proptest! {
    #[test]
    fn keys_sort_as_their_bytes(
        a in (integer(), text(), place(), any::<u64>()),
        b in (integer(), text(), place(), any::<u64>()),
        bytes in proptest::collection::vec(any::<u8>(), 0..5),
        c in any::<bool>(),
        (s, n) in (any::<u64>(), 0..1_000_000_000u32),
    ) {
        same_order(&a.0, &b.0)?;
        same_order(&(a.0 as i32), &(b.0 as i32))?;
        same_order(&(a.0 as u64), &(b.0 as u64))?;
        same_order(&a.1, &b.1)?;
        same_order(&Name(a.1.clone()), &Name(b.1.clone()))?;
        same_order(&a.2, &b.2)?;
        same_order(&Timestamp(a.0), &Timestamp(b.0))?;
        same_order(&Duration::new(s, n), &Duration::new(a.3, 0))?;
        same_order(&(a.1.clone(), a.0), &(b.1.clone(), b.0))?;
        same_order(&(a.1.clone(), b.0), &(a.1.clone(), a.0))?;
        same_order(&bytes, &b.1.clone().into_bytes())?;
        same_order(&bytes::Bytes::from(bytes.clone()), &bytes::Bytes::from(b.1.clone()))?;
        same_order(&Uuid::from_u128(u128::from(a.3) << 60), &Uuid::from_u128(u128::from(b.3)))?;
        same_order(&(c, None::<u8>, Some(a.3)), &(!c, Some(1), None))?;
        let (left, right) = (a.2.clone(), b.2.clone());
        same_order(&Nested { place: left.clone(), after: a.3 }, &Nested { place: right, after: b.3 })?;
        same_order(&Nested { place: left.clone(), after: a.3 }, &Nested { place: left, after: b.3 })?;
    }

    #[test]
    fn older_code_keeps_what_it_does_not_know_of_a_key(a in place(), b in place()) {
        let (x, y) = (encode_key(&a).unwrap(), encode_key(&b).unwrap());
        let (old_a, old_b): (v1::Place, v1::Place) = (decode_key(&x).unwrap(), decode_key(&y).unwrap());
        prop_assert_eq!(encode_key(&old_a).unwrap(), x);
        prop_assert_eq!(old_a.cmp(&old_b), a.cmp(&b));
        prop_assert_eq!(old_a == old_b, a == b);
    }

    #[test]
    fn any_bytes_are_a_key_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        only_canonical::<v2::Place>(&bytes)?;
        only_canonical::<v1::Place>(&bytes)?;
        only_canonical::<Nested>(&bytes)?;
        only_canonical::<(i64, String, Option<Uuid>)>(&bytes)?;
    }

    #[test]
    fn damaged_keys_are_a_key_or_an_error(
        key in place(),
        at in any::<proptest::sample::Index>(),
        byte in prop_oneof![0..4u8, 0x18..0x29u8, 0x40..0x61u8, any::<u8>()],
    ) {
        let nested = Nested { place: key, after: 300 };
        let mut bytes = encode_key(&nested).unwrap();
        let index = at.index(bytes.len());
        bytes[index] = byte;
        only_canonical::<Nested>(&bytes)?;
    }
}

/// What can be read is exactly what would be written.
fn only_canonical<K: Key + std::fmt::Debug>(bytes: &[u8]) -> Result<(), TestCaseError> {
    if let Ok(key) = decode_key::<K>(bytes) {
        prop_assert_eq!(encode_key(&key).unwrap(), bytes, "{:?}", key);
    }
    Ok(())
}

#[test]
fn keys_that_gain_absent_fields_keep_their_bytes() {
    let old = v1::Place {
        city: "Delft".into(),
        number: 7,
        unknown: Unknown::NONE,
    };
    let new = v2::Place {
        city: "Delft".into(),
        number: 7,
        stairs: None,
        floor: None,
        unknown: Unknown::NONE,
    };
    let bytes = encode_key(&old).unwrap();
    assert_eq!(bytes, b"\x40Delft\x00\x21\x07");
    assert_eq!(encode_key(&new).unwrap(), bytes);
    assert_eq!(decode_key::<v2::Place>(&bytes).unwrap(), new);
}

#[test]
fn integers_of_every_width_have_the_same_bytes() {
    let bytes = encode_key(&7u8).unwrap();
    assert_eq!(encode_key(&7i64).unwrap(), bytes);
    assert_eq!(decode_key::<u32>(&bytes).unwrap(), 7);
    assert!(decode_key::<u8>(&encode_key(&-1i8).unwrap()).is_err());
}

#[test]
fn a_key_over_the_limit_is_refused() {
    let error = encode_key(&"x".repeat(5000)).unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::TooLarge { what: "key", .. }),
        "{error}"
    );
}

/// The key of version 1 with another order: the number counts first.
#[derive(Key, Clone, Debug, PartialEq, Eq, Hash)]
#[record(name = "Place")]
struct Reordered {
    #[n(0)]
    city: String,
    #[n(1)]
    number: i32,
    unknown: Unknown,
}

impl Ord for Reordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.number, &self.city).cmp(&(other.number, &other.city))
    }
}

impl PartialOrd for Reordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

fn stored_places() -> Vec<Vec<u8>> {
    let mut keys: Vec<_> = [("b", 1), ("a", 2), ("a", -5), ("c", 0)]
        .into_iter()
        .map(|(city, number)| {
            let key = v1::Place {
                city: city.into(),
                number,
                unknown: Unknown::NONE,
            };
            encode_key(&key).unwrap()
        })
        .collect();
    keys.sort();
    keys
}

#[test]
fn c72_keys_that_kept_their_order_pass() {
    check_keys::<v1::Place>(stored_places()).unwrap();
    check_keys::<v2::Place>(stored_places()).unwrap();
    check_keys::<(String, i64)>(stored_places()).unwrap();
}

#[test]
fn c72_a_changed_order_is_refused() {
    let error = check_keys::<Reordered>(stored_places()).unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::KeyContractChanged { .. }),
        "{error}"
    );
    assert_eq!(error.code().to_string(), "STF-3046");
    assert!(
        error.to_string().contains("no longer sorts after"),
        "{error}"
    );
}

#[test]
fn c72_a_changed_type_or_a_key_that_comes_twice_is_refused() {
    for error in [
        check_keys::<(String, String)>(stored_places()).unwrap_err(),
        check_keys::<String>(stored_places()).unwrap_err(),
        check_keys::<v1::Place>([stored_places(), stored_places()].concat()).unwrap_err(),
    ] {
        assert!(
            matches!(error.kind(), ErrorKind::KeyContractChanged { .. }),
            "{error}"
        );
    }
}

//! JSON in storage, and storage as JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use steadfast::schema::{
    ErrorKind, Json, Key, Msgpack, Record, Unknown, UnknownVariant, WriteVersion, decode_key,
    decode_value, encode_key, encode_value, json_to_key, key_to_json, value_to_json,
};
use steadfast_core::clock::Timestamp;
use uuid::Uuid;

const LATEST: u32 = WriteVersion::LATEST;

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e300..1e300f64).prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(".{0,3}", inner, 0..4)
                .prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn json_comes_back_and_shows_as_itself(value in any_json()) {
        let stored = encode_value(&Json(value.clone()), LATEST).unwrap();
        prop_assert_eq!(&decode_value::<Json>(&stored).unwrap().0, &value);
        prop_assert_eq!(value_to_json(&stored).unwrap(), value);
    }

    #[test]
    fn shown_keys_can_be_given_back(
        key in (any::<i64>(), ".{0,5}", proptest::option::of(any::<u64>()), any::<bool>()),
        more in (any::<u128>(), any::<i64>(), any::<u64>(), proptest::collection::vec(any::<u8>(), 0..5)),
    ) {
        given_back(&key.0)?;
        given_back(&key.1)?;
        given_back(&key)?;
        given_back(&((key.2, key.3), key.1))?;
        given_back(&(Uuid::from_u128(more.0), Timestamp(more.1), Duration::from_nanos(more.2), more.3))?;
        given_back(&Timestamp(more.1 / 100_000))?;
    }

    #[test]
    fn any_bytes_show_or_fail(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        if let Ok(shown) = key_to_json(&bytes) {
            prop_assert_eq!(json_to_key(&shown).unwrap(), bytes.clone());
        }
        let _ = value_to_json(&bytes);
        let stored = [&[1, 1], &bytes[..]].concat();
        let _ = value_to_json(&stored);
    }
}

fn given_back<K: Key + std::fmt::Debug>(key: &K) -> Result<(), TestCaseError> {
    let bytes = encode_key(key).unwrap();
    let shown = key_to_json(&bytes).unwrap();
    prop_assert_eq!(&json_to_key(&shown).unwrap(), &bytes, "{}", shown);
    prop_assert_eq!(&decode_key::<K>(&bytes).unwrap(), key);
    Ok(())
}

#[test]
fn keys_read_well() {
    let shown = |bytes: Vec<u8>| key_to_json(&bytes).unwrap();
    assert_eq!(
        shown(encode_key(&"Delft".to_owned()).unwrap()),
        json!("Delft")
    );
    assert_eq!(shown(encode_key(&-7i32).unwrap()), json!(-7));
    assert_eq!(
        shown(encode_key(&("a".to_owned(), 7u8)).unwrap()),
        json!(["a", 7])
    );
    assert_eq!(
        shown(encode_key(&Timestamp(0)).unwrap()),
        json!({"$time": "1970-01-01T00:00:00.000Z"})
    );
    assert_eq!(
        json_to_key(&json!("a")).unwrap(),
        encode_key(&"a".to_owned()).unwrap()
    );
}

#[test]
fn what_cannot_be_a_key_is_refused() {
    for bad in [
        json!(1.5),
        json!({"a": 1}),
        json!(null),
        json!([{"$uuid": "x"}]),
        json!({"$hex": "é0"}),
    ] {
        let error = json_to_key(&bad).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::JsonKey { .. }),
            "{bad}: {error}"
        );
    }
    let mut deep = json!([]);
    for _ in 0..100 {
        deep = json!([deep]);
    }
    let error = json_to_key(&deep).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooDeep { .. }), "{error}");
}

#[derive(Record)]
struct House {
    #[n(0)]
    name: String,
    #[n(1)]
    state: State,
    #[n(2)]
    built: Timestamp,
    #[n(3)]
    id: Uuid,
    #[n(4)]
    warmth: f64,
    #[n(5)]
    scan: Vec<u8>,
    #[n(6)]
    rooms: BTreeMap<String, Option<u8>>,
    #[n(7)]
    packed: Msgpack<(u8, String)>,
    #[n(8)]
    place: (String, u8),
    #[n(9)]
    rest: Duration,
    unknown: Unknown,
}

#[derive(Record)]
enum State {
    #[n(1)]
    Heating(i32),
    #[record(other)]
    Other(UnknownVariant),
}

#[test]
fn a_record_shows_without_its_type() {
    let house = House {
        name: "seven".into(),
        state: State::Heating(-2),
        built: Timestamp(1_709_210_096_789),
        id: Uuid::nil(),
        warmth: f64::INFINITY,
        scan: vec![0, 255],
        rooms: [("hall".to_owned(), None), ("bath".to_owned(), Some(3))].into(),
        packed: Msgpack::new(&(1, "x".into())).unwrap(),
        place: ("Delft".into(), 7),
        rest: Duration::from_millis(1500),
        unknown: Unknown::NONE,
    };
    let stored = encode_value(&house, LATEST).unwrap();
    let expected = json!({
        "0": "seven",
        "1": [1, -2],
        "2": "2024-02-29T12:34:56.789Z",
        "3": "00000000-0000-0000-0000-000000000000",
        "4": {"$float": "inf"},
        "5": {"$hex": "00ff"},
        "6": {"hall": null, "bath": 3},
        "7": [1, "x"],
        "8": ["Delft", 7],
        "9": {"$duration": [1, 500_000_000]},
    });
    assert_eq!(value_to_json(&stored).unwrap(), expected);
}

#[test]
fn json_too_deep_is_refused() {
    let mut deep = json!([]);
    for _ in 0..200 {
        deep = json!([deep]);
    }
    let error = encode_value(&Json(deep), LATEST).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooDeep { .. }), "{error}");
    let hostile = [vec![1, 1], vec![0x81; 100_000], vec![0x80]].concat();
    for error in [
        decode_value::<Json>(&hostile).unwrap_err(),
        value_to_json(&hostile).unwrap_err(),
    ] {
        assert!(matches!(error.kind(), ErrorKind::TooDeep { .. }), "{error}");
    }
    let tags = [vec![1, 1], vec![0xc6; 100_000], vec![0x80]].concat();
    assert!(value_to_json(&tags).is_err());
}

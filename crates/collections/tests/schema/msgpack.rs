//! Existing serde types as values.

use std::collections::BTreeMap;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use steadfast::schema::{
    ErrorKind, Msgpack, Record, Unknown, WriteVersion, decode_value, encode_value,
};

const LATEST: u32 = WriteVersion::LATEST;

#[derive(Serialize, Deserialize, Debug, PartialEq)]
struct OldHouse {
    name: String,
    #[serde(flatten)]
    unknown: BTreeMap<String, Value>,
}

#[derive(Serialize, Deserialize, Debug, PartialEq)]
struct NewHouse {
    name: String,
    street: String,
    rooms: Vec<u8>,
}

#[test]
fn c69_serde_types_with_flatten_keep_what_they_do_not_know() {
    let new = NewHouse {
        name: "seven".into(),
        street: "Long Road".into(),
        rooms: vec![1, 2],
    };
    let stored = encode_value(&Msgpack::new(&new).unwrap(), LATEST).unwrap();

    let mut old = decode_value::<Msgpack<OldHouse>>(&stored)
        .unwrap()
        .open()
        .unwrap();
    assert_eq!(old.unknown.len(), 2);
    old.name = "eight".into();
    let stored = encode_value(&Msgpack::new(&old).unwrap(), LATEST).unwrap();

    let again = decode_value::<Msgpack<NewHouse>>(&stored)
        .unwrap()
        .open()
        .unwrap();
    assert_eq!(again.name, "eight");
    assert_eq!((again.street, again.rooms), (new.street, new.rooms));
}

#[test]
fn what_is_only_passed_on_keeps_its_bytes() {
    let stored = encode_value(&Msgpack::new(&"text".to_owned()).unwrap(), LATEST).unwrap();
    // Not even the type must fit until the value is opened.
    let passed: Msgpack<NewHouse> = decode_value(&stored).unwrap();
    assert_eq!(encode_value(&passed, LATEST).unwrap(), stored);
    let error = passed.open().unwrap_err();
    assert!(
        matches!(
            error.kind(),
            ErrorKind::Adaptor {
                doing: "reading",
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_mutex_inside_changes_nothing_that_is_stored() {
    let packed = Msgpack::new(&Mutex::new(1u64)).unwrap();
    *packed.open().unwrap().lock().unwrap() = 2;
    assert_eq!(packed.open().unwrap().into_inner().unwrap(), 1);
}

#[test]
fn a_field_can_be_packed() {
    #[derive(Record, PartialEq, Debug)]
    struct Wrapper {
        #[n(0)]
        house: Msgpack<NewHouse>,
        unknown: Unknown,
    }
    let house = NewHouse {
        name: "seven".into(),
        street: String::new(),
        rooms: Vec::new(),
    };
    let wrapper = Wrapper {
        house: Msgpack::new(&house).unwrap(),
        unknown: Unknown::NONE,
    };
    let stored = encode_value(&wrapper, LATEST).unwrap();
    let again: Wrapper = decode_value(&stored).unwrap();
    assert_eq!(again, wrapper);
    assert_eq!(again.house.open().unwrap(), house);
}

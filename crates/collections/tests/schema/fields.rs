//! Every type that a field can have.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use steadfast::schema::{ErrorKind, Record, Unknown, WriteVersion, decode_value, encode_value};
use steadfast_core::clock::Timestamp;
use steadfast_core::limits::RECORD_DEPTH;
use uuid::Uuid;

const LATEST: u32 = WriteVersion::LATEST;

#[derive(Record, Clone, Debug, PartialEq, Default)]
struct Everything {
    #[n(0)]
    text: String,
    #[n(1)]
    small: (u8, i8),
    #[n(2)]
    wide: u64,
    #[n(3)]
    signed: i64,
    #[n(4)]
    single: f32,
    #[n(5)]
    double: f64,
    #[n(6)]
    bytes: Vec<u8>,
    #[n(7)]
    shared: bytes::Bytes,
    #[n(8)]
    uuid: Uuid,
    #[n(9)]
    time: Timestamp,
    #[n(10)]
    duration: Duration,
    #[n(11)]
    maybe: Option<bool>,
    #[n(12)]
    list: Vec<Option<u16>>,
    #[n(13)]
    map: BTreeMap<(String, i32), Vec<String>>,
    #[n(14)]
    hashed: HashMap<u32, ()>,
    #[n(15)]
    set: BTreeSet<Timestamp>,
    #[n(16)]
    boxed: Option<Box<Everything>>,
    #[n(17)]
    counted: Arc<String>,
    #[n(18)]
    hash: [u8; 4],
    #[n(19)]
    wrapped: Celsius,
    unknown: Unknown,
}

#[derive(Record, Clone, Debug, PartialEq, Default)]
#[record(transparent)]
struct Celsius(f64);

#[derive(Record, Debug, PartialEq)]
#[record(name = "pair")]
struct Pair<A, B> {
    #[n(1)]
    right: B,
    #[n(0)]
    left: A,
    unknown: Unknown,
}

fn everything() -> Everything {
    Everything {
        text: "wärme\0".into(),
        small: (255, -128),
        wide: u64::MAX,
        signed: i64::MIN,
        single: f32::MIN_POSITIVE,
        double: -0.0,
        bytes: vec![0, 1, 255],
        shared: bytes::Bytes::from_static(b"shared"),
        uuid: Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef),
        time: Timestamp(-1),
        duration: Duration::new(u64::MAX, 999_999_999),
        maybe: Some(false),
        list: vec![Some(1), None, Some(u16::MAX)],
        map: [
            (("b".into(), -1), vec!["x".into()]),
            (("a".into(), 1), vec![]),
        ]
        .into(),
        hashed: (0..50).map(|number| (number, ())).collect(),
        set: [Timestamp(i64::MIN), Timestamp(i64::MAX)].into(),
        boxed: Some(Box::default()),
        counted: Arc::new("counted".into()),
        hash: [1, 2, 3, 4],
        wrapped: Celsius(21.5),
        unknown: Unknown::NONE,
    }
}

#[test]
fn every_type_of_field_comes_back() {
    for value in [everything(), Everything::default()] {
        let stored = encode_value(&value, LATEST).unwrap();
        let again: Everything = decode_value(&stored).unwrap();
        assert_eq!(again, value);
        assert_eq!(encode_value(&again, LATEST).unwrap(), stored);
    }
}

#[test]
fn equal_values_have_equal_bytes() {
    // Every hash map has its own order in memory, and one in storage.
    let first = encode_value(&everything(), LATEST).unwrap();
    for _ in 0..8 {
        assert_eq!(encode_value(&everything(), LATEST).unwrap(), first);
    }
}

#[test]
fn fields_are_written_in_the_order_of_their_numbers() {
    let pair = Pair {
        right: true,
        left: 7u8,
        unknown: Unknown::NONE,
    };
    let stored = encode_value(&pair, LATEST).unwrap();
    assert_eq!(stored, [1, 1, 0xa2, 0, 7, 1, 0xf5]);
    assert_eq!(decode_value::<Pair<u8, bool>>(&stored).unwrap(), pair);
    assert_eq!(
        Pair::<u8, Option<bool>>::type_name(),
        "pair<u8, option<bool>>"
    );
}

#[test]
fn numbers_may_become_wider_and_are_checked_when_narrower() {
    let stored = encode_value(&300u16, LATEST).unwrap();
    assert_eq!(decode_value::<u64>(&stored).unwrap(), 300);
    assert_eq!(decode_value::<i32>(&stored).unwrap(), 300);
    let error = decode_value::<u8>(&stored).unwrap_err();
    assert!(
        error.to_string().contains("300 does not fit into u8"),
        "{error}"
    );
}

#[derive(Record, Clone, Debug, PartialEq)]
struct Tree {
    #[n(0)]
    children: Vec<Tree>,
    unknown: Unknown,
}

fn tree(depth: usize) -> Tree {
    let mut tree = Tree {
        children: Vec::new(),
        unknown: Unknown::NONE,
    };
    for _ in 1..depth {
        tree = Tree {
            children: vec![tree],
            unknown: Unknown::NONE,
        };
    }
    tree
}

#[test]
fn depth_is_bounded_in_both_directions() {
    // A tree and the list in it are two levels.
    let deepest = tree(RECORD_DEPTH / 2);
    let stored = encode_value(&deepest, LATEST).unwrap();
    assert_eq!(decode_value::<Tree>(&stored).unwrap(), deepest);

    let error = encode_value(&tree(RECORD_DEPTH / 2 + 1), LATEST).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooDeep { .. }), "{error}");

    let one_too_many = [
        vec![1, 1],
        [0xa1, 0x00, 0x81].repeat(RECORD_DEPTH / 2),
        vec![0xa1, 0x00, 0x80],
    ];
    let error = decode_value::<Tree>(&one_too_many.concat()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooDeep { .. }), "{error}");

    let mut hostile = vec![1, 1];
    hostile.extend([0xa1, 0x00, 0x81].repeat(100_000));
    hostile.extend([0xa1, 0x00, 0x80]);
    let error = decode_value::<Tree>(&hostile).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooDeep { .. }), "{error}");
}

#[test]
fn a_length_that_lies_reserves_nothing() {
    // A list of 2^64 - 1 trees, of which none is there.
    let mut hostile = vec![1, 1, 0xa1, 0x00, 0x9b];
    hostile.extend([0xff; 8]);
    let error = decode_value::<Tree>(&hostile).unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Malformed { .. }),
        "{error}"
    );
}

#[test]
fn a_newer_format_and_bytes_behind_the_end_are_refused() {
    let mut stored = encode_value(&7u64, LATEST).unwrap();
    stored.push(0);
    let error = decode_value::<u64>(&stored).unwrap_err();
    assert!(error.to_string().contains("left over"), "{error}");
    stored[0] = 2;
    let error = decode_value::<u64>(&stored).unwrap_err();
    assert_eq!(error.code().to_string(), "STF-3043");
    assert!(decode_value::<u64>(&[]).is_err());
}

#[test]
fn a_field_that_comes_twice_is_refused() {
    let twice = [1, 1, 0xa2, 0, 7, 0, 8];
    let error = decode_value::<Pair<u8, Option<u8>>>(&twice).unwrap_err();
    assert!(error.to_string().contains("ascend"), "{error}");
}

#[test]
fn an_error_says_where() {
    let stored = [1, 1, 0xa2, 0, 7, 1, 0x61, b'x'];
    let error = decode_value::<Pair<u8, bool>>(&stored).unwrap_err();
    assert!(error.to_string().contains("`Pair.right`"), "{error}");
}

/// Names that generated code uses too.
mod hygiene {
    use steadfast::schema::{Key, Record, Unknown as Rest, UnknownVariant};

    #[derive(Debug, PartialEq)]
    pub(super) struct Option;
    #[derive(Debug, PartialEq)]
    pub(super) struct Result;
    #[derive(Debug, PartialEq)]
    pub(super) struct Some;

    pub(super) mod private {
        use super::*;

        #[derive(Record, Debug, PartialEq, Clone)]
        pub(in super::super) struct Writer<T> {
            #[n(0)]
            pub(in super::super) from: T,
            #[record(unknown)]
            pub(in super::super) to: Rest,
        }
    }

    pub(super) fn number() -> u64 {
        7
    }

    #[derive(Record, Debug, PartialEq)]
    pub(super) struct Reader {
        #[n(0)]
        pub(super) last: private::Writer<u8>,
        #[n(1)]
        #[record(default = number())]
        pub(super) number: u64,
        #[n(2)]
        pub(super) start: ::std::option::Option<u8>,
        #[record(unknown)]
        pub(super) gather: Rest,
    }

    #[derive(Record, Debug, PartialEq)]
    pub(super) enum Kind {
        #[n(0)]
        Ok {
            #[n(0)]
            weaver: u8,
            #[record(unknown)]
            slot: Rest,
        },
        #[n(1)]
        Err(u8),
        #[record(other)]
        None(UnknownVariant),
    }

    #[derive(Key, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub(super) struct Row(#[n(0)] pub(super) u8, #[record(unknown)] pub(super) Rest);
}

#[test]
fn generated_code_does_not_trip_over_the_names_of_its_user() {
    let reader = hygiene::Reader {
        last: hygiene::private::Writer {
            from: 1,
            to: Unknown::NONE,
        },
        number: 2,
        start: None,
        gather: Unknown::NONE,
    };
    let stored = encode_value(&reader, LATEST).unwrap();
    assert_eq!(decode_value::<hygiene::Reader>(&stored).unwrap(), reader);
    // Without the field, its default is called by its name in the user's code.
    let shorter = [1, 1, 0xa1, 0, 0xa1, 0, 1];
    let again: hygiene::Reader = decode_value(&shorter).unwrap();
    assert_eq!(again.number, 7);

    for kind in [
        hygiene::Kind::Err(3),
        hygiene::Kind::Ok {
            weaver: 1,
            slot: Unknown::NONE,
        },
    ] {
        let stored = encode_value(&kind, LATEST).unwrap();
        assert_eq!(decode_value::<hygiene::Kind>(&stored).unwrap(), kind);
    }
    let row = hygiene::Row(9, Unknown::NONE);
    let bytes = steadfast::schema::encode_key(&row).unwrap();
    assert_eq!(
        steadfast::schema::decode_key::<hygiene::Row>(&bytes).unwrap(),
        row
    );
    assert_eq!(
        (hygiene::Option, hygiene::Result, hygiene::Some),
        (hygiene::Option, hygiene::Result, hygiene::Some)
    );
}

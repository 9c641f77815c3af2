//! Values from any bytes: a value or an error, never a panic.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use proptest::prelude::*;
use steadfast::schema::{
    Json, Record, Unknown, UnknownVariant, WriteVersion, decode_value, encode_value,
};
use steadfast_core::clock::Timestamp;
use uuid::Uuid;

const LATEST: u32 = WriteVersion::LATEST;

#[derive(Record, Clone, Debug, PartialEq)]
struct Node {
    #[n(0)]
    name: String,
    #[n(3)]
    kind: Sort,
    #[n(5)]
    #[record(default)]
    parts: Vec<Node>,
    #[n(7)]
    times: Option<(Timestamp, Duration)>,
    #[n(8)]
    #[record(default)]
    map: HashMap<i16, Option<Uuid>>,
    unknown: Unknown,
}

#[derive(Record, Clone, Debug, PartialEq)]
enum Sort {
    #[n(0)]
    Leaf,
    #[n(1)]
    Data(Vec<u8>),
    #[n(4)]
    Split {
        #[n(2)]
        at: i64,
        unknown: Unknown,
    },
    #[record(other)]
    Other(UnknownVariant),
}

/// Knows less than [`Node`] and nothing about [`Sort`].
#[derive(Record, Clone, Debug, PartialEq)]
struct OldNode {
    #[n(3)]
    kind: OldSort,
    #[n(5)]
    #[record(default)]
    parts: Vec<OldNode>,
    unknown: Unknown,
}

#[derive(Record, Clone, Debug, PartialEq)]
enum OldSort {
    #[n(4)]
    Split(OldSplit),
    #[record(other)]
    Other(UnknownVariant),
}

#[derive(Record, Clone, Debug, PartialEq)]
struct OldSplit {
    unknown: Unknown,
}

fn sort() -> impl Strategy<Value = Sort> {
    prop_oneof![
        Just(Sort::Leaf),
        proptest::collection::vec(any::<u8>(), 0..9).prop_map(Sort::Data),
        any::<i64>().prop_map(|at| Sort::Split {
            at,
            unknown: Unknown::NONE
        }),
    ]
}

fn node() -> impl Strategy<Value = Node> {
    let times = proptest::option::of((any::<i64>(), any::<u64>()));
    let id = proptest::option::of(any::<u128>().prop_map(Uuid::from_u128));
    let map = proptest::collection::hash_map(any::<i16>(), id, 0..4);
    let leaf = (".{0,5}", sort(), times, map).prop_map(|(name, kind, times, map)| Node {
        name,
        kind,
        parts: Vec::new(),
        times: times.map(|(time, nanos)| (Timestamp(time), Duration::from_nanos(nanos))),
        map,
        unknown: Unknown::NONE,
    });
    leaf.prop_recursive(3, 12, 4, |inner| {
        (inner.clone(), proptest::collection::vec(inner, 0..4))
            .prop_map(|(node, parts)| Node { parts, ..node })
    })
}

/// Whatever can be read comes back from what is then written.
fn stable<V: Record + PartialEq + std::fmt::Debug>(stored: &[u8]) -> Result<(), TestCaseError> {
    if let Ok(value) = decode_value::<V>(stored) {
        let again = encode_value(&value, LATEST).unwrap();
        let back = decode_value::<V>(&again).unwrap();
        prop_assert_eq!(&encode_value(&back, LATEST).unwrap(), &again);
        prop_assert_eq!(back, value);
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_value_comes_back(node in node()) {
        let stored = encode_value(&node, LATEST).unwrap();
        prop_assert_eq!(decode_value::<Node>(&stored).unwrap(), node);
    }

    #[test]
    fn c69_older_code_passes_any_value_on_unchanged(node in node()) {
        let stored = encode_value(&node, LATEST).unwrap();
        let old: OldNode = decode_value(&stored).unwrap();
        prop_assert_eq!(encode_value(&old, LATEST).unwrap(), stored);
    }

    #[test]
    fn any_bytes_are_a_value_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode_value::<Node>(&bytes);
        let stored = [&[1, 1], &bytes[..]].concat();
        stable::<Node>(&stored)?;
        stable::<OldNode>(&stored)?;
        stable::<Sort>(&stored)?;
        stable::<Json>(&stored)?;
        stable::<BTreeMap<Timestamp, Vec<Duration>>>(&stored)?;
    }

    #[test]
    fn damaged_values_are_a_value_or_an_error(
        node in node(),
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
        end in any::<proptest::sample::Index>(),
    ) {
        let mut stored = encode_value(&node, LATEST).unwrap();
        for (at, byte) in damage {
            let index = at.index(stored.len());
            stored[index] = byte;
        }
        stable::<OldNode>(&stored)?;
        stable::<Node>(&stored)?;
        let end = end.index(stored.len());
        prop_assert!(decode_value::<Node>(&stored[..end]).is_err());
    }
}

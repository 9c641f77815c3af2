//! Values written by one version and changed by another.

use std::collections::{BTreeMap, HashMap};

use steadfast::schema::{
    ErrorKind, Record, Unknown, UnknownVariant, WriteVersion, decode_value, encode_value,
    store_value,
};

const LATEST: u32 = WriteVersion::LATEST;

mod v1 {
    use super::*;

    #[derive(Record, Clone, Debug, PartialEq)]
    pub(super) struct House {
        #[n(0)]
        pub(super) name: String,
        #[n(2)]
        pub(super) rooms: Vec<Room>,
        #[n(4)]
        pub(super) boiler: Option<Boiler>,
        #[n(6)]
        pub(super) state: State,
        #[n(8)]
        pub(super) meters: BTreeMap<String, Room>,
        pub(super) unknown: Unknown,
    }

    #[derive(Record, Clone, Debug, PartialEq)]
    pub(super) struct Room {
        #[n(0)]
        pub(super) warmth: i32,
        pub(super) unknown: Unknown,
    }

    #[derive(Record, Clone, Debug, PartialEq)]
    pub(super) struct Boiler {
        #[n(3)]
        pub(super) power: u64,
        pub(super) unknown: Unknown,
    }

    #[derive(Record, Clone, Debug, PartialEq)]
    pub(super) enum State {
        #[n(0)]
        Idle,
        #[n(1)]
        Heating {
            #[n(0)]
            target: i32,
            unknown: Unknown,
        },
        #[n(2)]
        Room(Room),
        #[record(other)]
        Other(UnknownVariant),
    }
}

/// The same house, three versions later: fields before, between and after those
/// that version 1 knows, new variants, and a unit variant that gained content.
mod v3 {
    use super::*;

    #[derive(Record, Clone, Debug, PartialEq)]
    pub(super) struct House {
        #[n(0)]
        pub(super) name: String,
        #[n(1)]
        #[record(since = 2)]
        pub(super) street: Option<String>,
        #[n(2)]
        pub(super) rooms: Vec<Room>,
        #[n(3)]
        #[record(since = 3, default = vec![7, 8])]
        pub(super) codes: Vec<u64>,
        #[n(4)]
        pub(super) boiler: Option<Boiler>,
        #[n(5)]
        #[record(since = 3)]
        pub(super) twin: Option<Box<House>>,
        #[n(6)]
        pub(super) state: State,
        #[n(8)]
        pub(super) meters: HashMap<String, Room>,
        #[n(1000)]
        #[record(since = 2, default)]
        pub(super) price: f64,
        pub(super) unknown: Unknown,
    }

    #[derive(Record, Clone, Debug, PartialEq)]
    pub(super) struct Room {
        #[n(0)]
        pub(super) warmth: i32,
        #[n(1)]
        #[record(since = 2)]
        pub(super) colour: Option<String>,
        pub(super) unknown: Unknown,
    }

    #[derive(Record, Clone, Debug, PartialEq)]
    pub(super) struct Boiler {
        #[n(0)]
        #[record(since = 2)]
        pub(super) maker: Option<String>,
        #[n(3)]
        pub(super) power: u64,
        pub(super) unknown: Unknown,
    }

    #[derive(Record, Clone, Debug, PartialEq)]
    pub(super) enum State {
        #[n(0)]
        Idle(u64),
        #[n(1)]
        Heating {
            #[n(0)]
            target: i32,
            #[n(9)]
            #[record(since = 2)]
            by: Option<String>,
            unknown: Unknown,
        },
        #[n(2)]
        Room(Room),
        #[n(7)]
        Cooling(Vec<String>),
        #[record(other)]
        Other(UnknownVariant),
    }
}

fn room(warmth: i32) -> v3::Room {
    v3::Room {
        warmth,
        colour: Some(format!("colour {warmth}")),
        unknown: Unknown::NONE,
    }
}

fn house(state: v3::State) -> v3::House {
    v3::House {
        name: "seven".into(),
        street: Some("Long Road".into()),
        rooms: vec![room(1), room(2), room(3)],
        codes: vec![1, 2, u64::MAX],
        boiler: Some(v3::Boiler {
            maker: Some("Ember".into()),
            power: 12,
            unknown: Unknown::NONE,
        }),
        twin: None,
        state,
        meters: [("a".to_owned(), room(10)), ("b".to_owned(), room(20))].into(),
        price: 0.5,
        unknown: Unknown::NONE,
    }
}

fn states() -> Vec<v3::State> {
    vec![
        v3::State::Idle(5),
        v3::State::Heating {
            target: 21,
            by: Some("timer".into()),
            unknown: Unknown::NONE,
        },
        v3::State::Room(room(4)),
        v3::State::Cooling(vec!["fan".into()]),
    ]
}

#[test]
fn c68_version_three_reads_what_version_one_wrote() {
    let old = v1::House {
        name: "seven".into(),
        rooms: vec![v1::Room {
            warmth: 19,
            unknown: Unknown::NONE,
        }],
        boiler: None,
        state: v1::State::Heating {
            target: 3,
            unknown: Unknown::NONE,
        },
        meters: BTreeMap::new(),
        unknown: Unknown::NONE,
    };
    let stored = encode_value(&old, LATEST).unwrap();
    let new: v3::House = decode_value(&stored).unwrap();
    assert_eq!(new.name, "seven");
    assert_eq!((new.street, new.codes, new.price), (None, vec![7, 8], 0.0));
    assert_eq!(new.rooms[0].warmth, 19);
    assert_eq!(new.rooms[0].colour, None);
    assert!(matches!(
        new.state,
        v3::State::Heating {
            target: 3,
            by: None,
            ..
        }
    ));
}

#[test]
fn c69_what_version_one_does_not_know_survives_unchanged() {
    for state in states() {
        let stored = encode_value(&house(state), LATEST).unwrap();
        let old: v1::House = decode_value(&stored).unwrap();
        let again = encode_value(&old, LATEST).unwrap();
        // The envelope names the version that wrote; the rest is the same bytes.
        assert_eq!(again[2..], stored[2..]);
        assert_eq!((stored[1], again[1]), (3, 1));
    }
}

#[test]
fn c69_a_change_by_version_one_keeps_the_fields_of_version_three() {
    let before = house(states()[1].clone());
    let stored = encode_value(&before, LATEST).unwrap();
    let old: v1::House = decode_value(&stored).unwrap();
    let changed = v1::House {
        name: "eight".into(),
        ..old.evolve()
    };
    let stored = encode_value(&changed, LATEST).unwrap();
    let after: v3::House = decode_value(&stored).unwrap();
    let expected = v3::House {
        name: "eight".into(),
        ..before
    };
    assert_eq!(after, expected);
    assert_eq!(
        encode_value(&expected, LATEST).unwrap()[2..],
        stored[2..],
        "not the bytes that version three would have written"
    );
}

#[test]
fn c69_even_the_largest_number_is_kept() {
    // {0: 1, 1: [1, 2], 2^64 - 1: "x"}: only the first field is known.
    let mut stored = vec![1, 1, 0xa3, 0, 1, 1, 0x82, 1, 2, 0x1b];
    stored.extend([0xff; 8]);
    stored.extend([0x61, b'x']);
    let room: v1::Room = decode_value(&stored).unwrap();
    assert_eq!(encode_value(&room, LATEST).unwrap(), stored);
}

#[test]
fn c70_moved_records_take_along_what_is_unknown() {
    let stored = encode_value(&house(states()[2].clone()), LATEST).unwrap();
    let mut old: v1::House = decode_value(&stored).unwrap();
    // Reorder and drop list elements, move one into a map and one out of an enum.
    old.rooms.remove(0);
    old.rooms.reverse();
    let moved = old.rooms.pop().unwrap();
    old.meters.insert("moved".into(), moved);
    let v1::State::Room(inner) = std::mem::replace(&mut old.state, v1::State::Idle) else {
        panic!("the state is a room");
    };
    old.rooms.push(inner);
    let stored = encode_value(&old, LATEST).unwrap();
    // Version three gave `Idle` content, so it sees the bare one as unknown to it.
    let after: v3::House = decode_value(&stored).unwrap();
    assert_eq!(after.rooms, [room(3), room(4)]);
    assert_eq!(after.meters["moved"], room(2));
    assert_eq!(after.meters["a"], room(10));
    assert_eq!(after.boiler.unwrap().maker.as_deref(), Some("Ember"));
    assert!(matches!(after.state, v3::State::Other(variant) if variant.number() == 0));
}

#[test]
fn c70_unknown_variants_keep_number_and_bytes() {
    for (state, number) in [
        (v3::State::Cooling(vec!["fan".into()]), 7),
        (v3::State::Idle(5), 0),
    ] {
        let stored = encode_value(&state, LATEST).unwrap();
        let old: v1::State = decode_value(&stored).unwrap();
        let v1::State::Other(variant) = &old else {
            panic!("version one does not know {state:?}");
        };
        assert_eq!(variant.number(), number);
        assert_eq!(variant.raw(), &stored[2..]);
        assert_eq!(encode_value(&old, LATEST).unwrap()[2..], stored[2..]);
    }
}

#[test]
fn c70_a_value_built_from_nothing_inherits_in_the_same_place() {
    let before = house(states()[1].clone());
    let old: v1::House = decode_value(&encode_value(&before, LATEST).unwrap()).unwrap();
    // What `update` gets from a closure that builds everything anew.
    let bare_room = |warmth| v1::Room {
        warmth,
        unknown: Unknown::NONE,
    };
    let mut new = v1::House {
        name: "nine".into(),
        rooms: vec![bare_room(1)],
        boiler: Some(v1::Boiler {
            power: 13,
            unknown: Unknown::NONE,
        }),
        state: v1::State::Heating {
            target: 22,
            unknown: Unknown::NONE,
        },
        meters: [
            ("a".to_owned(), bare_room(11)),
            ("c".to_owned(), bare_room(12)),
        ]
        .into(),
        unknown: Unknown::NONE,
    };
    new.inherit(&old);
    let after: v3::House = decode_value(&encode_value(&new, LATEST).unwrap()).unwrap();
    assert_eq!(after.street.as_deref(), Some("Long Road"));
    assert_eq!((after.codes, after.price), (vec![1, 2, u64::MAX], 0.5));
    assert_eq!(after.boiler.unwrap().maker.as_deref(), Some("Ember"));
    assert_eq!(after.meters["a"].colour.as_deref(), Some("colour 10"));
    assert_eq!(after.meters["c"].colour, None);
    // An element of a list has no place of its own to inherit from.
    assert_eq!(after.rooms[0].colour, None);
    let v3::State::Heating { by, .. } = after.state else {
        panic!("the state is heating");
    };
    assert_eq!(by.as_deref(), Some("timer"));
}

#[test]
fn c71_the_write_version_switches_without_a_restart() {
    let version = WriteVersion::new(1);
    let value = house(v3::State::Cooling(Vec::new()));
    let write = |value: &v3::House| encode_value(value, version.get()).unwrap();

    let first = write(&value);
    let read: v3::House = decode_value(&first).unwrap();
    assert_eq!((first[1], read.street, read.price), (1, None, 0.0));
    assert_eq!(read.rooms[0].colour, None, "nested fields wait as well");

    version.set(2);
    let second = write(&value);
    let read: v3::House = decode_value(&second).unwrap();
    assert_eq!((second[1], read.street.as_deref()), (2, Some("Long Road")));
    assert_eq!(read.codes, [7, 8], "version three still waits");
    assert_eq!(read.rooms[0].colour.as_deref(), Some("colour 1"));

    version.set(LATEST);
    let third = write(&value);
    assert_eq!(third[1], 3);
    assert_eq!(decode_value::<v3::House>(&third).unwrap(), value);

    // Back again: what is stored stays readable, and a change loses nothing of it.
    version.set(1);
    let read: v3::House = decode_value(&third).unwrap();
    let changed = v3::House {
        name: "ten".into(),
        ..read
    };
    let again: v3::House = decode_value(&write(&changed)).unwrap();
    assert_eq!(again, changed);
    assert_eq!(again.street.as_deref(), Some("Long Road"));
}

#[test]
fn c71_a_value_in_memory_is_what_will_be_read() {
    let built = house(v3::State::Idle(1));
    // Held back: memory must not show what storage does not have.
    let (stored, kept) = store_value(built.clone(), 1).unwrap();
    assert_eq!(kept.street, None);
    assert_eq!(kept, decode_value::<v3::House>(&stored).unwrap());

    // Written, then the version goes back: a change of the value in memory keeps the
    // fields that its bytes have.
    let (_, kept) = store_value(built.clone(), LATEST).unwrap();
    assert_eq!(kept, built);
    let changed = v3::House {
        name: "ten".into(),
        ..kept.evolve()
    };
    let (stored, _) = store_value(changed.clone(), 1).unwrap();
    assert_eq!(decode_value::<v3::House>(&stored).unwrap(), changed);
}

#[test]
fn closed_types_refuse_instead_of_losing() {
    #[derive(Record, Debug)]
    #[record(closed)]
    struct Point {
        #[n(0)]
        warmth: i32,
    }
    #[derive(Record, Debug)]
    #[record(closed)]
    enum Switch {
        #[n(0)]
        On,
    }
    let stored = encode_value(&room(1), LATEST).unwrap();
    let error = decode_value::<Point>(&stored).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Closed { .. }), "{error}");
    let stored = encode_value(&v3::State::Cooling(Vec::new()), LATEST).unwrap();
    let error = decode_value::<Switch>(&stored).unwrap_err();
    assert!(error.to_string().contains("variant 7"), "{error}");
    let on = encode_value(&Switch::On, LATEST).unwrap();
    assert!(matches!(decode_value(&on), Ok(Switch::On)));
}

#[test]
fn a_missing_field_is_named() {
    let stored = encode_value(&(), LATEST).unwrap();
    let empty = [&stored[..2], &[0xa0][..]].concat();
    let error = decode_value::<v1::House>(&empty).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("STF-3041: field `name` of `House`"),
        "{error}"
    );
}

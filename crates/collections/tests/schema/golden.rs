//! Bytes of every released version, which stay readable.
//!
//! Nothing here can write a golden file: see `tests/golden/README.md`.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use steadfast::schema::{
    Json, Key, Msgpack, Record, Unknown, UnknownVariant, WriteVersion, decode_key, decode_value,
    encode_key, encode_value,
};
use steadfast_core::clock::Timestamp;
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64;

/// The files of one released version.
struct Folder {
    version: &'static str,
    digest: u64,
    cases: fn() -> Vec<Case>,
}

const FOLDERS: [Folder; 1] = [Folder {
    version: "v1",
    digest: 1_969_412_875_467_519_462,
    cases: v1,
}];

#[derive(Record, Clone, Debug, PartialEq)]
struct House {
    #[n(0)]
    name: String,
    #[n(1)]
    rooms: Vec<Room>,
    #[n(2)]
    state: State,
    #[n(3)]
    built: Option<Timestamp>,
    #[n(4)]
    meters: BTreeMap<String, u64>,
    #[n(5)]
    by_place: BTreeMap<Place, Room>,
    #[n(24)]
    id: Uuid,
    #[n(300)]
    rest: Duration,
    unknown: Unknown,
}

#[derive(Record, Clone, Debug, PartialEq)]
struct Room {
    #[n(0)]
    warmth: f64,
    #[n(1)]
    offset: f32,
    #[n(2)]
    steps: i64,
    #[n(3)]
    scan: Vec<u8>,
    #[n(4)]
    lit: bool,
    unknown: Unknown,
}

#[derive(Record, Clone, Debug, PartialEq)]
enum State {
    #[n(0)]
    Idle,
    #[n(1)]
    Heating {
        #[n(0)]
        target: i8,
        #[n(1)]
        until: Option<Timestamp>,
        unknown: Unknown,
    },
    #[n(2)]
    Waiting(u16),
    #[record(other)]
    Other(UnknownVariant),
}

#[derive(Key, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Place {
    #[n(0)]
    city: String,
    #[n(1)]
    number: i32,
    #[n(2)]
    floor: Option<i8>,
    unknown: Unknown,
}

/// Knows nothing but the name, so everything else is unknown to it.
#[derive(Record, Clone, Debug, PartialEq)]
struct OldHouse {
    #[n(0)]
    name: String,
    unknown: Unknown,
}

#[derive(Record, Clone, Debug, PartialEq)]
enum OldState {
    #[record(other)]
    Other(UnknownVariant),
}

#[derive(Key, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct OldPlace {
    #[n(0)]
    city: String,
    unknown: Unknown,
}

type Check = Box<dyn Fn(&[u8])>;

/// The name of a file, what is written today, and what comes of reading it.
struct Case {
    name: &'static str,
    written: Vec<u8>,
    check: Check,
}

fn value<V: Record + Clone + Debug + PartialEq>(name: &'static str, value: V) -> Case {
    Case {
        name,
        written: encode_value(&value, WriteVersion::LATEST).unwrap(),
        check: Box::new(move |stored| {
            assert_eq!(decode_value::<V>(stored).unwrap(), value, "{name}");
        }),
    }
}

/// A value that older code must pass on unchanged as well.
fn passed<V: Record + Clone + Debug + PartialEq, Old: Record>(name: &'static str, new: V) -> Case {
    let Case { written, check, .. } = value(name, new);
    let check = Box::new(move |stored: &[u8]| {
        check(stored);
        let old: Old = decode_value(stored).unwrap();
        let again = encode_value(&old, WriteVersion::LATEST).unwrap();
        assert_eq!(again, stored, "{name} through older code");
    });
    Case {
        name,
        written,
        check,
    }
}

fn key<K: Key + Debug, Old: Key>(name: &'static str, key: K) -> Case {
    Case {
        name,
        written: encode_key(&key).unwrap(),
        check: Box::new(move |stored| {
            assert_eq!(decode_key::<K>(stored).unwrap(), key, "{name}");
            let old: Old = decode_key(stored).unwrap();
            assert_eq!(
                encode_key(&old).unwrap(),
                stored,
                "{name} through older code"
            );
        }),
    }
}

fn place(floor: Option<i8>) -> Place {
    Place {
        city: "Den\0Haag".into(),
        number: -70_000,
        floor,
        unknown: Unknown::NONE,
    }
}

fn house() -> House {
    let room = |steps| Room {
        warmth: 21.5,
        offset: -0.25,
        steps,
        scan: vec![0, 127, 255],
        lit: true,
        unknown: Unknown::NONE,
    };
    House {
        name: "Zeestraße 7".into(),
        rooms: vec![room(i64::MIN), room(-1), room(i64::MAX)],
        state: State::Heating {
            target: -5,
            until: Some(Timestamp(1_709_210_096_789)),
            unknown: Unknown::NONE,
        },
        built: Some(Timestamp(-1)),
        meters: [("gas".to_owned(), u64::MAX), ("".to_owned(), 0)].into(),
        by_place: [(place(None), room(0)), (place(Some(-3)), room(23))].into(),
        id: Uuid::from_u128(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff),
        rest: Duration::new(86_400, 1),
        unknown: Unknown::NONE,
    }
}

fn v1() -> Vec<Case> {
    vec![
        passed::<House, OldHouse>("record", house()),
        passed::<State, OldState>("variant-unit", State::Idle),
        passed::<State, OldState>("variant-fields", house().state),
        passed::<State, OldState>("variant-content", State::Waiting(u16::MAX)),
        value("text", "Wärme\u{1f525}".to_owned()),
        value("unsigned", u64::MAX),
        value("signed", i64::MIN),
        value("float", f64::MIN_POSITIVE),
        value("truth", true),
        value("bytes", vec![0u8, 1, 255]),
        value("uuid", house().id),
        value("time", Timestamp(i64::MIN)),
        value("duration", Duration::MAX),
        value("none", None::<u64>),
        value("list", vec![Some(1u8), None]),
        value(
            "map",
            BTreeMap::from([(-1i32, "a".to_owned()), (24, "b".to_owned())]),
        ),
        value(
            "json",
            Json(serde_json::json!({"b": [1, -1, 1.5, null], "a": {"x": "y"}})),
        ),
        value(
            "msgpack",
            Msgpack::new(&("text".to_owned(), 21.5, [1u8, 2])).unwrap(),
        ),
        key::<_, OldPlace>("key-record", place(None)),
        key::<_, OldPlace>("key-record-longer", place(Some(i8::MIN))),
        key::<_, (String, u64, Option<i64>)>("key-row", ("a".to_owned(), 256u32, Some(-256i16))),
        key::<_, (Option<bool>, (u8, Vec<u8>))>(
            "key-nested",
            (None::<bool>, (7u8, vec![0u8, 255])),
        ),
        key::<_, String>("key-text", "\u{0}a\u{0}".to_owned()),
        key::<_, u64>("key-unsigned", u64::MAX),
        key::<_, i64>("key-signed", i64::MIN),
        key::<_, Uuid>("key-uuid", house().id),
        key::<_, Timestamp>("key-time", Timestamp(-1)),
        key::<_, Duration>("key-duration", Duration::new(1, 2)),
    ]
}

fn hex(bytes: &[u8]) -> String {
    let lines = bytes.chunks(32).map(|line| {
        let digits: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
        digits + "\n"
    });
    lines.collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn folder(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "golden", name]
        .iter()
        .collect()
}

#[test]
fn c73_golden_files_are_read_and_written_as_they_were() {
    for Folder { version, cases, .. } in FOLDERS {
        for case in cases() {
            let path = folder(version).join(format!("{}.hex", case.name));
            let text = fs::read_to_string(&path).unwrap_or_else(|error| {
                let bytes = hex(&case.written);
                panic!("{}: {error}; today's bytes are\n{bytes}", path.display())
            });
            let golden = from_hex(&text);
            (case.check)(&golden);
            assert_eq!(
                hex(&case.written),
                text,
                "{} is written differently now",
                case.name
            );
        }
    }
}

#[test]
fn c73_golden_files_are_the_ones_that_were_released() {
    for Folder {
        version,
        digest,
        cases,
    } in FOLDERS
    {
        let mut files: Vec<PathBuf> = fs::read_dir(folder(version))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        let mut all = Vec::new();
        for file in &files {
            all.extend(file.file_name().unwrap().as_encoded_bytes());
            all.push(0);
            all.extend(fs::read(file).unwrap());
        }
        assert_eq!(
            files.len(),
            cases().len(),
            "a file without a case, or a case without a file"
        );
        assert_eq!(
            xxh3_64(&all),
            digest,
            "a golden file of {version} was changed, added or removed: put it back"
        );
    }
    let folders = fs::read_dir(folder("")).unwrap().filter_map(|entry| {
        let entry = entry.unwrap();
        entry.path().is_dir().then(|| entry.file_name())
    });
    assert_eq!(folders.count(), FOLDERS.len(), "a folder without cases");
}

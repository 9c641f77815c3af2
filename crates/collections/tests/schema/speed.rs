//! How fast a record of eight fields is written and read.
//!
//! It prints; only the size is checked. For figures that mean something:
//! `cargo test --release -p steadfast-collections --test schema
//! speed -- --nocapture`.

use std::hint::black_box;
use std::time::Duration;

use steadfast::schema::{Record, Unknown, WriteVersion, decode_value, encode_value};
use steadfast_core::clock::{Clock, SystemClock};

const LATEST: u32 = WriteVersion::LATEST;
const TURNS: u32 = 20_000;

#[derive(Record, Clone, Debug, PartialEq)]
struct Order {
    #[n(0)]
    id: u64,
    #[n(1)]
    customer: String,
    #[n(2)]
    street: String,
    #[n(3)]
    cents: i64,
    #[n(4)]
    weight: f64,
    #[n(5)]
    is_paid: bool,
    #[n(6)]
    lines: Vec<u32>,
    #[n(7)]
    note: Option<String>,
    unknown: Unknown,
}

/// Knows six of the eight fields.
#[derive(Record, Clone, Debug, PartialEq)]
struct OldOrder {
    #[n(0)]
    id: u64,
    #[n(1)]
    customer: String,
    #[n(2)]
    street: String,
    #[n(3)]
    cents: i64,
    #[n(6)]
    lines: Vec<u32>,
    #[n(7)]
    note: Option<String>,
    unknown: Unknown,
}

/// The best of five, per turn.
fn best(mut turn: impl FnMut()) -> Duration {
    let clock = SystemClock::new();
    let run = |_| {
        let start = clock.monotonic();
        (0..TURNS).for_each(|_| turn());
        clock.monotonic() - start
    };
    (0..5).map(run).min().unwrap() / TURNS
}

#[test]
fn speed_of_a_record_of_eight_fields() {
    let order = Order {
        id: 8_123_456_789,
        customer: "Anna van der Berg".into(),
        street: "Zeestraat 70, Den Haag".into(),
        cents: -129_900,
        weight: 12.75,
        is_paid: true,
        lines: vec![1, 20, 300, 4_000, 50_000],
        note: Some("leave it with the neighbours".into()),
        unknown: Unknown::NONE,
    };
    let stored = encode_value(&order, LATEST).unwrap();
    let old: OldOrder = decode_value(&stored).unwrap();
    let write = best(|| drop(black_box(encode_value(black_box(&order), LATEST))));
    let read = best(|| drop(black_box(decode_value::<Order>(black_box(&stored)))));
    let write_old = best(|| drop(black_box(encode_value(black_box(&old), LATEST))));
    let read_old = best(|| drop(black_box(decode_value::<OldOrder>(black_box(&stored)))));
    println!(
        "{} bytes; written in {write:?}, read in {read:?}; with two unknown fields {write_old:?} and {read_old:?}",
        stored.len()
    );
    assert_eq!(stored.len(), 118);
}

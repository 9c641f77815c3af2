//! No interior mutability of any kind: cells, atomics, locks.
extern crate steadfast_collections as steadfast;

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

use steadfast::schema::{Record, Unknown};

#[derive(Record)]
enum State {
    #[n(0)]
    Counting(AtomicU64),
    #[n(1)]
    Waiting {
        #[n(0)]
        since: Option<OnceLock<u64>>,
        unknown: Unknown,
    },
    #[record(other)]
    Other(steadfast::schema::UnknownVariant),
}

#[derive(Record)]
#[record(transparent)]
struct Hidden(Cell<u8>);

fn main() {}

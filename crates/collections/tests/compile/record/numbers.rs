//! Each number is there, once, and not retired.
extern crate steadfast_collections as steadfast;

use steadfast::schema::{Record, Unknown, UnknownVariant};

#[derive(Record)]
#[record(retired(3))]
struct House {
    #[n(0)]
    name: String,
    #[n(0)]
    street: String,
    #[n(3)]
    price: u64,
    warmth: f64,
    unknown: Unknown,
}

#[derive(Record)]
enum State {
    #[n(1)]
    Idle,
    #[n(1)]
    Heating,
    Cooling,
    #[record(other)]
    Other(UnknownVariant),
}

fn main() {}

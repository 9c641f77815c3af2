//! What newer code writes needs a place.
extern crate steadfast_collections as steadfast;

use steadfast::schema::{Key, Record};

#[derive(Record)]
struct House {
    #[n(0)]
    name: String,
}

#[derive(Record)]
enum State {
    #[n(0)]
    Idle,
}

#[derive(Key, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Place {
    #[n(0)]
    city: String,
}

fn main() {}

//! Keys sort as they are declared, and floats do not sort.
extern crate steadfast_collections as steadfast;

use steadfast::schema::{Key, Unknown};

#[derive(Key, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Swapped {
    #[n(1)]
    number: u32,
    #[n(0)]
    city: String,
    unknown: Unknown,
}

#[derive(Key, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct SlotFirst {
    unknown: Unknown,
    #[n(0)]
    city: String,
}

fn key<K: Key>() {}

fn main() {
    key::<f64>();
}

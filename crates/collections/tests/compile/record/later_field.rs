//! A field that is added later is absent in older bytes.
extern crate steadfast_collections as steadfast;

use steadfast::schema::{Record, Unknown};

#[derive(Record)]
struct House {
    #[n(0)]
    name: String,
    #[n(1)]
    #[record(since = 2)]
    street: String,
    unknown: Unknown,
}

fn main() {}

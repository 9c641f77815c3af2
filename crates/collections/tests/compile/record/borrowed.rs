//! A stored type owns what it holds.
extern crate steadfast_collections as steadfast;

use steadfast::schema::{Record, Unknown};

#[derive(Record)]
struct House<'a> {
    #[n(0)]
    name: &'a str,
    unknown: Unknown,
}

fn main() {}

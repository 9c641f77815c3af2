//! A mutex could be changed behind the transaction's back.
extern crate steadfast_collections as steadfast;

use std::sync::Mutex;

use steadfast::schema::{Record, Unknown};

#[derive(Record)]
struct House {
    #[n(0)]
    warmth: Mutex<f64>,
    unknown: Unknown,
}

fn main() {}

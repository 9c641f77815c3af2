//! A serde struct would drop fields that it does not know.
extern crate steadfast_collections as steadfast;

use serde::{Deserialize, Serialize};
use steadfast::schema::{Record, Unknown};

#[derive(Serialize, Deserialize)]
struct Address {
    street: String,
}

#[derive(Record)]
struct House {
    #[n(0)]
    address: Address,
    unknown: Unknown,
}

fn main() {}

//! A serde struct in its adaptor.
use serde::{Deserialize, Serialize};
use steadfast::schema::{Msgpack, Record, Unknown};

#[derive(Serialize, Deserialize)]
struct Address {
    street: String,
}

#[derive(Record)]
struct House {
    #[n(0)]
    address: Msgpack<Address>,
    unknown: Unknown,
}

//! A plain number instead of a mutex.
use steadfast::schema::{Record, Unknown};

#[derive(Record)]
struct House {
    #[n(0)]
    warmth: f64,
    unknown: Unknown,
}

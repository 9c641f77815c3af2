//! An owned text, and a parameter for the rest.
use steadfast::schema::{Record, Unknown};

#[derive(Record)]
struct House<T> {
    #[n(0)]
    name: String,
    #[n(1)]
    rest: Option<T>,
    unknown: Unknown,
}

//! A place for what newer code writes, or a closed type.
use steadfast::schema::{Key, Record, Unknown, UnknownVariant};

#[derive(Record)]
struct House {
    #[n(0)]
    name: String,
    unknown: Unknown,
}

#[derive(Record)]
#[record(closed)]
struct Point {
    #[n(0)]
    x: f64,
}

#[derive(Record)]
enum State {
    #[n(0)]
    Idle,
    #[record(other)]
    Other(UnknownVariant),
}

#[derive(Key, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Place {
    #[n(0)]
    city: String,
    unknown: Unknown,
}

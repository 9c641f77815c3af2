//! Every field and variant with a number of its own.
use steadfast::schema::{Record, Unknown, UnknownVariant};

#[derive(Record)]
#[record(retired(3))]
struct House {
    #[n(0)]
    name: String,
    #[n(1)]
    street: String,
    #[n(4)]
    price: u64,
    #[n(2)]
    warmth: f64,
    unknown: Unknown,
}

#[derive(Record)]
enum State {
    #[n(1)]
    Idle,
    #[n(2)]
    Heating,
    #[n(0)]
    Cooling,
    #[record(other)]
    Other(UnknownVariant),
}

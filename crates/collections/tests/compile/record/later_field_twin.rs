//! Fields that are added later are options or have a default.
use steadfast::schema::{Record, Unknown};

#[derive(Record)]
struct House {
    #[n(0)]
    name: String,
    #[n(1)]
    #[record(since = 2)]
    street: Option<String>,
    #[n(2)]
    #[record(since = 2, default)]
    price: u64,
    #[n(3)]
    #[record(since = 3, default = 21.5)]
    warmth: f64,
    unknown: Unknown,
}

//! Fields in the order of their numbers.
use steadfast::schema::{Key, Unknown};

#[derive(Key, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Place {
    #[n(0)]
    city: String,
    #[n(1)]
    number: u32,
    #[n(2)]
    floor: Option<i8>,
    unknown: Unknown,
}

fn key<K: Key>() {}

fn main() {
    key::<u64>();
    key::<Place>();
}

//! The same types with plain content.
use steadfast::schema::{Record, Unknown};

#[derive(Record)]
enum State {
    #[n(0)]
    Counting(u64),
    #[n(1)]
    Waiting {
        #[n(0)]
        since: Option<u64>,
        unknown: Unknown,
    },
    #[record(other)]
    Other(steadfast::schema::UnknownVariant),
}

#[derive(Record)]
#[record(transparent)]
struct Hidden(Vec<u8>);

//! Dead letters of a consumer group.

use bytes::Bytes;
use steadfast_collections::schema::Record;
use steadfast_core::clock::Timestamp;

/// An event that the handler failed on, kept until it is replayed or dropped. It
/// outlives the retention of its event hub.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", name = "Parked", closed)]
pub struct DeadLetter {
    #[n(0)]
    pub sequence: i64,
    #[n(1)]
    pub offset: i64,
    /// When the event was published.
    #[n(2)]
    pub enqueued: Timestamp,
    #[n(3)]
    pub key: Option<String>,
    #[n(4)]
    pub body: Bytes,
    /// Failed attempts so far.
    #[n(5)]
    pub attempts: u32,
    /// The error of the last attempt.
    #[n(6)]
    pub reason: String,
    /// When it was stored as a dead letter.
    #[n(7)]
    pub parked: Timestamp,
}

/// Longest stored reason, in bytes.
pub(crate) const REASON_BYTES: usize = 1024;

/// A reason, truncated to the limit.
pub(crate) fn shortened(reason: &str) -> String {
    let mut end = reason.len().min(REASON_BYTES);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    reason[..end].to_owned()
}

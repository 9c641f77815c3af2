//! Events that a group has put aside.

use bytes::Bytes;
use steadfast_collections::schema::Record;
use steadfast_core::clock::Timestamp;

/// An event that could not be handled, kept until somebody handles it again. It
/// outlives the retention of its event hub.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct Parked {
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
    /// How often it was tried.
    #[n(5)]
    pub attempts: u32,
    /// Why it could not be handled, the last time.
    #[n(6)]
    pub reason: String,
    /// When it was put aside.
    #[n(7)]
    pub parked: Timestamp,
}

/// Longest reason that is kept, in bytes.
pub(crate) const REASON_BYTES: usize = 1024;

/// A reason that fits.
pub(crate) fn shortened(reason: &str) -> String {
    let mut end = reason.len().min(REASON_BYTES);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    reason[..end].to_owned()
}

//! Messages of transactions, or why they are invalid.

use bytes::Bytes;
use steadfast_net::http::Problem;
use steadfast_partition::OutgoingMessage;

/// A message, encoded for the runtime.
pub(super) fn encoded(message: impl OutgoingMessage) -> Result<Bytes, Problem> {
    let encoded = message.into_bytes();
    encoded.map_err(|error| Problem::new(error.code(), error.kind().to_string()))
}

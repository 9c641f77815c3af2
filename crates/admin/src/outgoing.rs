//! Messages of transactions, as problems of REST if they are invalid.

use bytes::Bytes;
use steadfast_collections::OutgoingMessage;
use steadfast_net::http::Problem;

/// A message, encoded for the runtime.
pub(super) fn encoded(message: impl OutgoingMessage) -> Result<Bytes, Problem> {
    let encoded = message.into_bytes();
    encoded.map_err(|error| Problem::new(error.code(), error.kind().to_string()))
}

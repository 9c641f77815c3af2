//! Messages that functions send with their results.

use bytes::Bytes;
use steadfast_collections::OutgoingMessage;
use steadfast_partition::{Envelope, Turn};

use crate::failure::FailureDetails;

/// Whether a function can send messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outgoing {
    /// It runs in the process of a node.
    Local,
    /// It runs in a worker, whose protocol has no such messages.
    Unsupported,
}

/// The bytes of a message to send.
pub(crate) fn encode(
    message: impl OutgoingMessage,
    outgoing: Outgoing,
) -> Result<Vec<u8>, FailureDetails> {
    if outgoing == Outgoing::Unsupported {
        let why = "only functions in the process of a node can send messages to other services";
        return Err(FailureDetails::lasting("Message", why));
    }
    let message = message.into_bytes();
    let message = message.map_err(|error| FailureDetails::lasting("Message", error.to_string()))?;
    Ok(message.into())
}

/// Sends a message in the commit of a turn, to the partition that its service names.
pub(crate) fn dispatch(turn: &mut Turn<'_>, message: &[u8], sender: &str) {
    match Envelope::decode(Bytes::copy_from_slice(message)) {
        Ok(envelope) => turn.send(envelope),
        Err(_) => tracing::warn!(
            event = "durable.letter_dropped",
            sender,
            "a function sent bytes that are not a message; they are dropped",
        ),
    }
}

//! The context of an activity.

use std::sync::Arc;

use parking_lot::Mutex;
use steadfast_collections::OutgoingMessage;
use steadfast_core::limits;

use crate::failure::FailureDetails;
use crate::outgoing::{Outgoing, encode};

/// The orchestration that scheduled an activity. An activity may do any I/O; it may run
/// again if its worker dies before its result is recorded.
#[derive(Clone, Debug)]
pub struct ActivityContext {
    pub(super) instance: String,
    pub(super) execution: String,
    pub(super) id: i32,
    pub(super) messages: Arc<Mutex<Vec<Vec<u8>>>>,
    pub(super) outgoing: Outgoing,
}

impl ActivityContext {
    /// The orchestration that scheduled it.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// A unique key that stays the same when this activity runs again: use it to make
    /// external calls idempotent.
    pub fn key(&self) -> String {
        format!("{}/{}/{}", self.instance, self.execution, self.id)
    }

    /// Sends a message with the commit of the activity's result, to whatever partition its
    /// receiver lives in. An activity may run several times, but one result is recorded, and
    /// only the messages of that run are sent: exactly once, after the commit; a push, which
    /// has no row, at most once. An activity that fails sends nothing. The target is not
    /// checked before: a message to one that does not exist becomes a dead letter.
    pub fn send(&self, message: impl OutgoingMessage) -> Result<(), FailureDetails> {
        let message = encode(message, self.outgoing)?;
        let mut messages = self.messages.lock();
        let bytes = messages.iter().map(Vec::len).sum::<usize>() + message.len();
        if bytes > limits::PUBLIC_TRANSACTION_BYTES {
            let limit = limits::PUBLIC_TRANSACTION_BYTES;
            let why = format!("an activity sends {limit} bytes at most; send less");
            return Err(FailureDetails::lasting("Message", why));
        }
        messages.push(message);
        Ok(())
    }
}

//! Commands suspended on code outside the owner loop.
//!
//! A service may need a result of user code, which the loop never runs itself. Its
//! command is then suspended in the queue of its instance, like a command whose rows
//! are being loaded, and runs again from its beginning with the result. Nothing is
//! written in the meantime. If the owner is lost, so is the command: its sender sends
//! it again.

use std::sync::Arc;

use crate::ingress::address::Address;
use crate::ingress::command::SuspensionResult;
use crate::ingress::control::{ControlMessage, ControlSender};

/// The state of a command's suspension.
pub enum SuspensionState<R> {
    /// Not suspended yet: see [`Turn::completer`](crate::Turn::completer).
    NotStarted,
    /// The result; `None`: the code did not run and will not.
    Completed(Option<Arc<R>>),
    /// This command cannot be suspended: it shares its commit with others.
    Unavailable,
}

/// Completes a suspended command. Dropping it reports that the code will not run.
pub struct Completer {
    posts: ControlSender,
    lane: Option<Address>,
    number: u64,
}

impl Completer {
    pub(crate) fn new(posts: ControlSender, lane: Address, number: u64) -> Self {
        Self {
            posts,
            lane: Some(lane),
            number,
        }
    }

    /// The code has run.
    pub fn complete<R: Send + Sync + 'static>(mut self, answer: R) {
        self.send(Some(Arc::new(answer)));
    }

    fn send(&mut self, returned: SuspensionResult) {
        if let Some(lane) = self.lane.take() {
            // The loop may have ended.
            let _ = self
                .posts
                .send(ControlMessage::Completed(lane, self.number, returned));
        }
    }
}

impl Drop for Completer {
    fn drop(&mut self) {
        self.send(None);
    }
}

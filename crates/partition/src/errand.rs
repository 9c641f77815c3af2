//! Commands suspended on code outside the owner loop.
//!
//! A service may need a result of user code, which the loop never runs itself. Its
//! command is then suspended in the queue of its instance, like a command whose rows
//! are being loaded, and runs again from its beginning with the result. Nothing is
//! written in the meantime. If the owner is lost, so is the command: its sender sends
//! it again.

use std::sync::Arc;

use crate::address::Address;
use crate::command::Returned;
use crate::post::{Post, Posts};

/// The state of a command's suspension.
pub enum Trip<R> {
    /// Not suspended yet: see [`Turn::ticket`](crate::Turn::ticket).
    Open,
    /// The result; `None`: the code did not run and will not.
    Back(Option<Arc<R>>),
    /// This command cannot be suspended: it shares its commit with others.
    Never,
}

/// Completes a suspended command. Dropping it reports that the code will not run.
pub struct Ticket {
    posts: Posts,
    lane: Option<Address>,
    number: u64,
}

impl Ticket {
    pub(crate) fn new(posts: Posts, lane: Address, number: u64) -> Self {
        Self {
            posts,
            lane: Some(lane),
            number,
        }
    }

    /// The code has run.
    pub fn answer<R: Send + Sync + 'static>(mut self, answer: R) {
        self.send(Some(Arc::new(answer)));
    }

    fn send(&mut self, returned: Returned) {
        if let Some(lane) = self.lane.take() {
            // The loop may have ended.
            let _ = self.posts.send(Post::Returned(lane, self.number, returned));
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.send(None);
    }
}

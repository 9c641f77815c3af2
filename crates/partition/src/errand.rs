//! Code outside the loop that a command waits for.
//!
//! A service may want code to run before it decides: code of users, which the loop
//! never runs itself. Its command then waits in the lane of its instance, as one
//! does whose rows are being loaded, and runs again from its beginning with the
//! answer. Nothing is written meanwhile. If the owner goes, so does the command:
//! whoever sent it sends it again.

use std::sync::Arc;

use crate::address::Address;
use crate::command::Returned;
use crate::post::{Post, Posts};

/// What a service finds when it asks for its errand.
pub enum Trip<R> {
    /// Nobody is under way: see [`Turn::ticket`](crate::Turn::ticket).
    Open,
    /// The answer; `None`: nobody has run it, and nobody will.
    Back(Option<Arc<R>>),
    /// This command cannot wait: it shares its commit with others.
    Never,
}

/// The right to answer a command that waits. Dropping it answers that nobody will.
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
            // An owner that is gone waits for nothing.
            let _ = self.posts.send(Post::Returned(lane, self.number, returned));
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.send(None);
    }
}

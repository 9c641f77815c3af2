//! Control messages to an owner loop.

use tokio::sync::{mpsc, oneshot};

use steadfast_core::id::Partition;

use crate::address::Address;
use crate::command::{Command, Returned};
use crate::error::Result;
use crate::transport::Parcel;

/// Sends control messages to the owner loop of a partition.
pub(crate) type Posts = mpsc::UnboundedSender<Post>;

/// A message to an owner loop that is not a call.
pub(crate) enum Post {
    Parcel(Parcel, Receipt),
    /// A partition of this node has handled our batch up to this number; `None`: it has
    /// not.
    Handled(Partition, Option<u64>),
    /// The suspended command of an instance has its result; with the number of the
    /// suspension.
    Returned(Address, u64, Returned),
    Command(Box<Command>),
    /// Accept no more callers, and end when nothing is in progress.
    Drain,
    /// End now.
    Stop,
}

/// Where a batch is acknowledged.
pub(crate) enum Receipt {
    /// A sender that waits for it.
    Far(oneshot::Sender<Result<u64>>),
    /// The loop of the partition that sent it, on this node.
    Near(Near),
}

/// Acknowledges a batch from a partition of this node. Dropping it reports that the
/// batch was not handled.
pub(crate) struct Near {
    source: Posts,
    to: Option<Partition>,
}

impl Receipt {
    /// For a batch to `to` of the loop behind `source`.
    pub(crate) fn near(source: Posts, to: Partition) -> Self {
        let to = Some(to);
        Self::Near(Near { source, to })
    }

    /// Acknowledges the last number of the link that is durably handled, or reports the
    /// error.
    pub(crate) fn send(self, handled: Result<u64>) {
        // A sender that is gone sends the batch again after it was loaded.
        match self {
            Self::Far(reply) => drop(reply.send(handled)),
            Self::Near(mut near) => near.tell(handled.ok()),
        }
    }
}

impl Near {
    fn tell(&mut self, handled: Option<u64>) {
        if let Some(to) = self.to.take() {
            let _ = self.source.send(Post::Handled(to, handled));
        }
    }
}

impl Drop for Near {
    fn drop(&mut self) {
        self.tell(None);
    }
}

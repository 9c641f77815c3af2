//! What comes to a partition without being asked for.

use tokio::sync::{mpsc, oneshot};

use steadfast_core::id::Partition;

use crate::address::Address;
use crate::command::{Command, Returned};
use crate::error::Result;
use crate::transport::Parcel;

/// The way of posts to the loop of a partition.
pub(crate) type Posts = mpsc::UnboundedSender<Post>;

/// What comes to a partition without being asked for.
pub(crate) enum Post {
    Parcel(Parcel, Receipt),
    /// A partition of this node has handled a parcel of ours up to this number, or
    /// it has not.
    Handled(Partition, Option<u64>),
    /// The errand of an instance, by its number, has come back.
    Returned(Address, u64, Returned),
    Command(Box<Command>),
    /// Take no more callers, and end when nothing is under way.
    Drain,
    /// End now.
    Stop,
}

/// Where a parcel is acknowledged.
pub(crate) enum Receipt {
    /// Somebody who waits for it.
    Far(oneshot::Sender<Result<u64>>),
    /// The loop of the partition that sent it, on this node.
    Near(Near),
}

/// A parcel from a partition of this node. Dropping it says that it was not handled.
pub(crate) struct Near {
    source: Posts,
    to: Option<Partition>,
}

impl Receipt {
    /// For a parcel to `to` of the loop behind `source`.
    pub(crate) fn near(source: Posts, to: Partition) -> Self {
        let to = Some(to);
        Self::Near(Near { source, to })
    }

    /// The link's last number that is durably handled, or why it is not known.
    pub(crate) fn send(self, handled: Result<u64>) {
        // A sender that is gone sends again when it is back.
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

//! Control messages to an owner loop.

use tokio::sync::{mpsc, oneshot};

use steadfast_core::id::Partition;

use crate::error::Result;
use crate::ingress::address::Address;
use crate::ingress::command::{Command, SuspensionResult};
use crate::ingress::transport::MessageBatch;
use crate::owner::idle::IdleReport;

/// Sends control messages to the owner loop of a partition.
pub(crate) type ControlSender = mpsc::UnboundedSender<ControlMessage>;

/// A message to an owner loop that is not a call.
pub(crate) enum ControlMessage {
    Batch(MessageBatch, BatchReceipt),
    /// A partition of this node has handled our batch up to this number; `None`: it has
    /// not.
    Handled(Partition, Option<u64>),
    /// The suspended command of an instance has its result; with the number of the
    /// suspension.
    Completed(Address, u64, SuspensionResult),
    Command(Box<Command>),
    /// Report when there is nothing to do.
    AwaitIdle(oneshot::Sender<IdleReport>),
    /// Accept no more callers, and end when nothing is in progress.
    Drain,
    /// End now.
    Stop,
}

/// Where a batch is acknowledged.
pub(crate) enum BatchReceipt {
    /// A sender that waits for it.
    Remote(oneshot::Sender<Result<u64>>),
    /// The loop of the partition that sent it, on this node.
    Local(LocalReceipt),
}

/// Acknowledges a batch from a partition of this node. Dropping it reports that the
/// batch was not handled.
pub(crate) struct LocalReceipt {
    source: ControlSender,
    to: Option<Partition>,
}

impl BatchReceipt {
    /// The receipt of a batch that the loop behind `source` sends to `to`.
    pub(crate) fn near(source: ControlSender, to: Partition) -> Self {
        let to = Some(to);
        Self::Local(LocalReceipt { source, to })
    }

    /// Acknowledges the last number of the link that is durably handled, or reports the
    /// error.
    pub(crate) fn send(self, handled: Result<u64>) {
        // A sender whose loop has ended sends the batch again after its next load.
        match self {
            Self::Remote(reply) => drop(reply.send(handled)),
            Self::Local(mut near) => near.tell(handled.ok()),
        }
    }
}

impl LocalReceipt {
    fn tell(&mut self, handled: Option<u64>) {
        if let Some(to) = self.to.take() {
            let _ = self.source.send(ControlMessage::Handled(to, handled));
        }
    }
}

impl Drop for LocalReceipt {
    fn drop(&mut self) {
        self.tell(None);
    }
}

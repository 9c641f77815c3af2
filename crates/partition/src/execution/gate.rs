//! The one gate: nothing leaves before it is durable.
//!
//! Replies, messages, acknowledgements and effects wait here until the LSN that they
//! depend on is durable, in the order in which they were staged.

use std::collections::VecDeque;

use steadfast_core::id::{Lsn, Partition};
use tokio::sync::oneshot;

use crate::error::{Error, Result};
use crate::execution::effect::Effect;
use crate::ingress::control::BatchReceipt;
use crate::ingress::message::MessagePayload;

/// A value that waits for a commit.
#[derive(Debug)]
pub(crate) struct Gated<T> {
    pub(crate) lsn: Lsn,
    pub(crate) value: T,
}

/// An output of the partition.
pub(crate) enum GatedOutput {
    Reply(
        oneshot::Sender<Result<MessagePayload>>,
        Result<MessagePayload>,
    ),
    Committed(oneshot::Sender<Result<Lsn>>, Lsn),
    /// Messages to a partition, up to this number.
    Send(Partition, u64),
    /// The last number of a link that is handled.
    Acknowledge(BatchReceipt, u64),
    Perform(Effect),
}

impl GatedOutput {
    /// Discards the output: its receiver gets the error.
    pub(crate) fn fail(self, error: &Error) {
        // The receiver may have stopped waiting.
        match self {
            Self::Reply(reply, _) => drop(reply.send(Err(error.clone()))),
            Self::Committed(reply, _) => drop(reply.send(Err(error.clone()))),
            Self::Acknowledge(receipt, _) => receipt.send(Err(error.clone())),
            Self::Send(..) | Self::Perform(_) => {}
        }
    }
}

#[derive(Default)]
pub(crate) struct Gate {
    waiting: VecDeque<Gated<GatedOutput>>,
}

impl Gate {
    /// Holds an output back until `lsn` is durable, behind earlier ones.
    pub(crate) fn hold(&mut self, lsn: Lsn, value: GatedOutput) {
        let last = self.waiting.back().map_or(Lsn(0), |gated| gated.lsn);
        let lsn = lsn.max(last);
        self.waiting.push_back(Gated { lsn, value });
    }

    /// The next output that may leave.
    pub(crate) fn pass(&mut self, durable: Lsn) -> Option<GatedOutput> {
        let next = self.waiting.front()?;
        if next.lsn <= durable {
            self.waiting.pop_front().map(|gated| gated.value)
        } else {
            None
        }
    }

    /// All outputs that wait, with their LSNs.
    pub(crate) fn drain(&mut self) -> VecDeque<Gated<GatedOutput>> {
        std::mem::take(&mut self.waiting)
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}

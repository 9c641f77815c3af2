//! Effects: work and pushes after a commit.
//!
//! Work is durable: it has a row, is started after the commit and again after every
//! load of the partition, and a later command ends it. A push has no row and may be
//! lost with the node.

use std::any::Any;

use bytes::Bytes;
use steadfast_core::id::{Epoch, Partition};

use crate::ingress::address::{Address, ServiceKind};

/// An action outside the partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The partition that requested it.
    pub partition: Partition,
    /// The epoch of the owner that requested it.
    pub epoch: Epoch,
    /// The instance that requested it.
    pub from: Address,
    /// The id of the work, `None` for a push.
    pub work: Option<Bytes>,
    pub body: Bytes,
}

/// Performs effects: HTTP calls, pushes to clients, turns of workers.
pub trait Performer: Send + Sync + 'static {
    /// Starts an effect. It must not block: the owner loop calls it.
    fn perform(&self, effect: Effect);

    /// This node has stopped serving a partition and has not opened it again: the next
    /// owner starts its effects again. It must not block either.
    fn partition_closed(&self, _: Partition) {}

    /// An object that services of this kind may use in their turns, such as access to
    /// code outside the loop. They know its type.
    fn helper(&self, _: ServiceKind) -> Option<&(dyn Any + Send + Sync)> {
        None
    }
}

/// Performs nothing: for spaces whose services have no effects.
pub struct NoopPerformer;

impl Performer for NoopPerformer {
    fn perform(&self, effect: Effect) {
        tracing::warn!(
            event = "partition.no_performer",
            from = %effect.from,
            "no performer is registered for this effect",
        );
    }
}

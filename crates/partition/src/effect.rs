//! What happens outside, after the commit that caused it.
//!
//! Work must happen: it has a row, is started after the commit and again after
//! every load of the partition, and a later command ends it. A push may be lost
//! with the node and has no row.

use std::any::Any;

use bytes::Bytes;
use steadfast_core::id::{Epoch, Partition};

use crate::address::{Address, Kind};

/// Something to be done outside the partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The partition that wants it done.
    pub partition: Partition,
    /// In which of its tenures.
    pub epoch: Epoch,
    /// The instance that wants it done.
    pub from: Address,
    /// The id of the work, `None` for a push.
    pub work: Option<Bytes>,
    pub body: Bytes,
}

/// Does what must be done outside: HTTP calls, pushes to clients, turns of workers.
pub trait Performer: Send + Sync + 'static {
    /// Starts an effect. It must not block: the owner loop calls it.
    fn perform(&self, effect: Effect);

    /// A partition is not served here any more, and not yet again: what it wanted is
    /// wanted by its next owner. It must not block either.
    fn parted(&self, _: Partition) {}

    /// What services of this kind may use while they decide, such as a way to code
    /// outside. They know its type.
    fn helper(&self, _: Kind) -> Option<&(dyn Any + Send + Sync)> {
        None
    }
}

/// Performs nothing: for spaces whose services have no effects.
pub struct Idle;

impl Performer for Idle {
    fn perform(&self, effect: Effect) {
        tracing::warn!(
            event = "partition.no_performer",
            from = %effect.from,
            "no performer is registered for this effect",
        );
    }
}

//! A command on its way through a partition.

use std::any::Any;
use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::id::Lsn;
use steadfast_storage::Writes;
use tokio::sync::oneshot;

use crate::address::{Address, Kind};
use crate::error::Result;
use crate::message::Payload;
use crate::transport::Link;

/// A command, and who sent it.
pub(crate) struct Command {
    pub(crate) origin: Origin,
    /// The first call. A user's transaction may call nothing.
    pub(crate) first: Option<Step>,
    /// The other commands of a user's transaction, which share its commit.
    pub(crate) more: Vec<Step>,
    /// Rows of a user's transaction. Most commands have none, and a command is moved
    /// often, hence the box.
    pub(crate) writes: Option<Box<Writes>>,
    pub(crate) errand: Errand,
}

/// The result of code outside the loop; `None`: it did not run.
pub(crate) type Returned = Option<Arc<dyn Any + Send + Sync>>;

/// Whether a command waits for code outside the loop.
#[derive(Clone, Default)]
pub(crate) enum Errand {
    #[default]
    None,
    /// Suspended, with the number of the suspension.
    Away(u64),
    Back(Returned),
}

/// One call of one service.
pub(crate) struct Step {
    pub(crate) to: Address,
    pub(crate) body: Payload,
}

/// Where a command comes from. Only callers can be refused; other origins repeat it.
pub(crate) enum Origin {
    /// A caller that waits for an answer.
    Caller(Caller),
    /// A user's transaction.
    Transaction(oneshot::Sender<Result<Lsn>>),
    /// A message of another partition.
    Link { link: Link, number: u64 },
    /// A message of this partition to itself.
    Own { number: u64 },
    /// A timer, by the key of its row.
    Timer { key: Bytes },
    /// A sender on this node that waits for no answer.
    Posted,
}

/// A caller that waits for an answer.
pub(crate) struct Caller {
    pub(crate) reply: oneshot::Sender<Result<Payload>>,
    /// The reply leaves the node, so it is encoded.
    pub(crate) is_remote: bool,
}

/// A caller whose answer a later turn gives.
pub(crate) struct Waiting {
    pub(crate) caller: Caller,
    /// The service that answers.
    pub(crate) service: Kind,
}

impl Command {
    pub(crate) fn new(origin: Origin, to: Address, body: Payload) -> Self {
        Self {
            origin,
            first: Some(Step { to, body }),
            more: Vec::new(),
            writes: None,
            errand: Errand::None,
        }
    }

    /// All calls, in order.
    pub(crate) fn steps(&self) -> impl Iterator<Item = &Step> {
        self.first.iter().chain(&self.more)
    }

    /// The instance that it is for, if it calls one.
    pub(crate) fn to(&self) -> Option<&Address> {
        self.first.as_ref().map(|step| &step.to)
    }

    /// Whether it may be refused: its sender learns of that.
    pub(crate) fn is_refusable(&self) -> bool {
        matches!(self.origin, Origin::Caller(_) | Origin::Transaction(_))
    }
}

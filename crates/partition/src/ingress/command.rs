//! A command on its way through a partition.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::id::Lsn;
use steadfast_storage::Writes;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::error::{Error, Result};
use crate::ingress::address::{Address, Envelope, ServiceKind};
use crate::ingress::message::MessagePayload;
use crate::ingress::transport::PartitionLink;

/// A command, and who sent it.
pub(crate) struct Command {
    pub(crate) origin: CommandOrigin,
    /// The first call. A user's transaction may call nothing.
    pub(crate) first: Option<CommandStep>,
    /// The other commands of a user's transaction, which share its commit.
    pub(crate) more: Vec<CommandStep>,
    /// What a user's transaction commits beside its commands. Most commands have none, and
    /// a command is moved often, hence the box.
    pub(crate) transaction: Option<Box<UserTransaction>>,
    pub(crate) suspension: Suspension,
}

/// Rows and messages of a user's transaction.
pub(crate) struct UserTransaction {
    pub(crate) writes: Writes,
    /// To instances of any partition.
    pub(crate) messages: Vec<Envelope>,
}

/// The result of code outside the loop; `None`: it did not run.
pub(crate) type SuspensionResult = Option<Arc<dyn Any + Send + Sync>>;

/// Whether a command waits for code outside the loop.
#[derive(Clone, Default)]
pub(crate) enum Suspension {
    #[default]
    None,
    /// Suspended, with the number of the suspension.
    Suspended(u64),
    Completed(SuspensionResult),
}

/// One call of one service.
pub(crate) struct CommandStep {
    pub(crate) to: Address,
    pub(crate) body: MessagePayload,
}

/// Where a command comes from. Only callers can be refused; other origins repeat it.
pub(crate) enum CommandOrigin {
    /// A caller that waits for an answer.
    Caller(ReplySender),
    /// A user's transaction.
    Transaction(oneshot::Sender<Result<Lsn>>),
    /// A message of another partition.
    Link { link: PartitionLink, number: u64 },
    /// A message of this partition to itself.
    Own { number: u64 },
    /// A timer, by the key of its row.
    Timer { key: Bytes },
    /// A sender on this node that waits for no answer.
    Posted,
}

/// A caller that waits for an answer.
pub(crate) struct ReplySender {
    pub(crate) reply: oneshot::Sender<Result<MessagePayload>>,
    /// The reply leaves the node, so it is encoded.
    pub(crate) is_remote: bool,
    /// Until then the command waits while the log is full, and is not refused.
    pub(crate) waits_until: Option<Instant>,
}

/// A caller whose answer a later turn gives.
pub(crate) struct DeferredCall {
    pub(crate) caller: ReplySender,
    /// The service that answers.
    pub(crate) service: ServiceKind,
}

impl CommandOrigin {
    /// Tells a caller that its command has failed. Other origins send it again.
    pub(crate) fn refuse(self, error: &Error) {
        // The caller may have stopped waiting.
        match self {
            Self::Caller(caller) => drop(caller.reply.send(Err(error.clone()))),
            Self::Transaction(reply) => drop(reply.send(Err(error.clone()))),
            Self::Link { .. } | Self::Own { .. } | Self::Timer { .. } | Self::Posted => {}
        }
    }
}

impl Command {
    pub(crate) fn new(origin: CommandOrigin, to: Address, body: MessagePayload) -> Self {
        Self {
            origin,
            first: Some(CommandStep { to, body }),
            more: Vec::new(),
            transaction: None,
            suspension: Suspension::None,
        }
    }

    /// All calls, in order.
    pub(crate) fn steps(&self) -> impl Iterator<Item = &CommandStep> {
        self.first.iter().chain(&self.more)
    }

    /// The instance that it is for, if it calls one.
    pub(crate) fn to(&self) -> Option<&Address> {
        self.first.as_ref().map(|step| &step.to)
    }

    /// Whether it may be refused, because its sender gets the refusal.
    pub(crate) fn is_refusable(&self) -> bool {
        matches!(
            self.origin,
            CommandOrigin::Caller(_) | CommandOrigin::Transaction(_)
        )
    }

    /// Lets it wait while the log is full.
    pub(crate) fn wait_for_room(&mut self, time: Duration) {
        if let CommandOrigin::Caller(caller) = &mut self.origin {
            caller.waits_until = Some(Instant::now() + time);
        }
    }

    /// Whether it still waits while the log is full.
    pub(crate) fn waits_for_room(&self) -> bool {
        match &self.origin {
            CommandOrigin::Caller(caller) => {
                caller.waits_until.is_some_and(|end| Instant::now() < end)
            }
            _ => !self.is_refusable(),
        }
    }
}

//! The mailbox of one partition of this node.
//!
//! Calls go through a bounded queue, and callers wait while it is full. What cannot be
//! refused (messages of other partitions, completions of work) has a queue of its own,
//! which its senders bound: one batch per link, one completion per work.

use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::id::{Lsn, Partition};
use steadfast_core::limits;
use steadfast_storage::{Ledger, Writes};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use crate::error::{Error, ErrorKind, Result};
use crate::ingress::address::{Address, Envelope};
use crate::ingress::command::{
    Command, CommandOrigin, CommandStep, ReplySender, Suspension, UserTransaction,
};
use crate::ingress::control::{BatchReceipt, ControlMessage, ControlSender};
use crate::ingress::message::{Message, MessagePayload};
use crate::ingress::transport::MessageBatch;
use crate::metrics::Metrics;
use crate::owner::idle::IdleReport;

/// The mailbox of a partition that this node serves. Clones share it and are cheap:
/// every call makes one.
#[derive(Clone)]
pub struct Mailbox {
    inside: Arc<Inner>,
}

struct Inner {
    partition: Partition,
    calls: mpsc::Sender<Command>,
    posts: ControlSender,
    metrics: Arc<Metrics>,
    ledger: Ledger,
}

/// The reply to a command in the queue of a partition. The command runs even if this is
/// dropped.
pub struct PendingResponse<R> {
    door: Mailbox,
    answer: oneshot::Receiver<Result<MessagePayload>>,
    reply: PhantomData<fn() -> R>,
}

impl<R: Message> PendingResponse<R> {
    /// Waits for the answer, which is durable.
    pub async fn answer(self) -> Result<R> {
        open(self.door.answer(self.answer).await?)
    }
}

impl Mailbox {
    pub(crate) fn new(
        ledger: Ledger,
        calls: mpsc::Sender<Command>,
        posts: ControlSender,
        metrics: Arc<Metrics>,
    ) -> Self {
        let inside = Inner {
            partition: ledger.partition(),
            calls,
            posts,
            metrics,
            ledger,
        };
        Self {
            inside: Arc::new(inside),
        }
    }

    /// Which partition this is.
    pub fn partition(&self) -> Partition {
        self.inside.partition
    }

    /// The partition's counters.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.inside.metrics
    }

    /// The partition's ledger, for reads.
    pub fn ledger(&self) -> &Ledger {
        &self.inside.ledger
    }

    /// Wakes the loop at once; the future waits until it has nothing to do at the current
    /// time. `None` if the loop ends before.
    pub fn idle(&self) -> impl Future<Output = Option<IdleReport>> + Send + use<> {
        let (reply, report) = oneshot::channel();
        self.send_control(ControlMessage::AwaitIdle(reply));
        async move { report.await.ok() }
    }

    /// Sends the owner loop a control message. Does nothing if the loop has ended.
    pub(crate) fn send_control(&self, post: ControlMessage) {
        let _ = self.inside.posts.send(post);
    }

    /// Calls an instance; waits while the queue is full.
    pub async fn call<C: Message, R: Message>(&self, to: Address, command: C) -> Result<R> {
        let (command, answer) = self.command(to, MessagePayload::value(command), false);
        self.ask(command, answer).await
    }

    /// Calls an instance; waits also while the log is full, for a limited time.
    pub async fn call_when_room<C: Message, R: Message>(
        &self,
        to: Address,
        command: C,
    ) -> Result<R> {
        let (mut command, answer) = self.command(to, MessagePayload::value(command), false);
        command.wait_for_room(limits::RESULT_WAIT);
        self.ask(command, answer).await
    }

    /// Calls an instance and returns once the command is in the queue, so that the next
    /// command of the same caller comes after it. Await the answer afterwards.
    pub async fn begin<C: Message, R: Message>(
        &self,
        to: Address,
        command: C,
    ) -> Result<PendingResponse<R>> {
        let (command, answer) = self.command(to, MessagePayload::value(command), false);
        if self.inside.calls.send(command).await.is_err() {
            return Err(self.closed());
        }
        Ok(PendingResponse {
            door: self.clone(),
            answer,
            reply: PhantomData,
        })
    }

    /// Calls an instance; fails if the queue is full.
    pub async fn try_call<C: Message, R: Message>(&self, to: Address, command: C) -> Result<R> {
        let (command, answer) = self.command(to, MessagePayload::value(command), false);
        let partition = self.inside.partition;
        match self.inside.calls.try_send(command) {
            Ok(()) => open(self.answer(answer).await?),
            Err(TrySendError::Full(_)) => Err(Error::new(ErrorKind::Busy { partition })),
            Err(TrySendError::Closed(_)) => Err(self.closed()),
        }
    }

    /// Runs a call of another node.
    pub(crate) async fn serve(&self, envelope: Envelope) -> Result<Bytes> {
        let body = MessagePayload::Bytes(envelope.body);
        let (command, answer) = self.command(envelope.to, body, true);
        self.ask(command, answer).await
    }

    /// Commits a user's rows together with commands to instances of this partition, and
    /// messages to instances of any: all or nothing.
    pub async fn commit(
        &self,
        writes: Writes,
        commands: Vec<Envelope>,
        messages: Vec<Envelope>,
    ) -> Result<Lsn> {
        let (reply, answer) = oneshot::channel();
        let step = |envelope: Envelope| CommandStep {
            to: envelope.to,
            body: MessagePayload::Bytes(envelope.body),
        };
        let mut steps = commands.into_iter().map(step);
        let command = Command {
            origin: CommandOrigin::Transaction(reply),
            first: steps.next(),
            more: steps.collect(),
            transaction: Some(Box::new(UserTransaction { writes, messages })),
            suspension: Suspension::None,
        };
        if self.inside.calls.send(command).await.is_err() {
            return Err(self.closed());
        }
        match answer.await {
            Ok(answer) => answer,
            Err(_) => Err(Error::unknown(
                self.inside.partition,
                self.inside.ledger.failure(),
            )),
        }
    }

    /// Sends an instance a command that must not be refused, such as the completion of
    /// its work. It is lost only with the partition's owner; the next owner then starts
    /// the work again.
    pub fn post(&self, envelope: Envelope) {
        let body = MessagePayload::Bytes(envelope.body);
        let command = Command::new(CommandOrigin::Posted, envelope.to, body);
        // If the loop has ended, the next owner starts the work again.
        let _ = self
            .inside
            .posts
            .send(ControlMessage::Command(Box::new(command)));
    }

    /// Receives messages of another partition.
    pub(crate) async fn receive(&self, parcel: MessageBatch) -> Result<u64> {
        let (reply, answer) = oneshot::channel();
        let post = ControlMessage::Batch(parcel, BatchReceipt::Remote(reply));
        if self.inside.posts.send(post).is_err() {
            return Err(self.closed());
        }
        match answer.await {
            Ok(answer) => answer,
            Err(_) => Err(self.closed()),
        }
    }

    fn command(
        &self,
        to: Address,
        body: MessagePayload,
        is_remote: bool,
    ) -> (Command, oneshot::Receiver<Result<MessagePayload>>) {
        let (reply, answer) = oneshot::channel();
        let caller = ReplySender {
            reply,
            is_remote,
            waits_until: None,
        };
        (
            Command::new(CommandOrigin::Caller(caller), to, body),
            answer,
        )
    }

    async fn ask<R: Message>(
        &self,
        command: Command,
        answer: oneshot::Receiver<Result<MessagePayload>>,
    ) -> Result<R> {
        if self.inside.calls.send(command).await.is_err() {
            return Err(self.closed());
        }
        open(self.answer(answer).await?)
    }

    async fn answer(
        &self,
        answer: oneshot::Receiver<Result<MessagePayload>>,
    ) -> Result<MessagePayload> {
        match answer.await {
            Ok(answer) => answer,
            Err(_) => Err(Error::unknown(
                self.inside.partition,
                self.inside.ledger.failure(),
            )),
        }
    }

    /// The command never entered the queue.
    fn closed(&self) -> Error {
        let partition = self.inside.partition;
        Error::new(ErrorKind::Draining { partition })
    }
}

fn open<R: Message>(payload: MessagePayload) -> Result<R> {
    payload
        .open()
        .map_err(|_| Error::new(ErrorKind::Malformed { what: "the reply" }))
}

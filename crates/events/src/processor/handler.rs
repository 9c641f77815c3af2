//! The handler interface of processors.

use std::future::Future;
use std::panic::AssertUnwindSafe;

use bytes::Bytes;
use futures_util::FutureExt;
use steadfast_collections::{Replica, State, Tx};
use steadfast_core::clock::Timestamp;

use crate::batch::{EventData, EventPublication};
use crate::error::{Error, ErrorKind, Result};
use crate::position::EventPosition;

/// The error of a handler.
pub type HandlerError = Box<dyn std::error::Error + Send + Sync>;

/// The result of a handler.
pub type HandlerResult = std::result::Result<(), HandlerError>;

/// Handles the events of a group; `docs/guides/events.md` has an example. One handler
/// serves all partitions of a processor: its calls are sequential within a partition,
/// and concurrent across partitions.
pub trait Handler: Send + Sync + 'static {
    /// Handles events of one partition, in order. Failed events are retried.
    fn handle(
        &self,
        events: &[ReceivedEvent],
        context: &mut Context<'_>,
    ) -> impl Future<Output = HandlerResult> + Send;

    /// Called once before a partition's first event.
    fn open(&self, _opening: &mut PartitionStart) -> impl Future<Output = HandlerResult> + Send {
        async { Ok(()) }
    }

    /// Called once after a partition's last event, before it is released.
    fn close(&self, _partition: u32, _why: CloseReason) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// Called on every error. The processor continues.
    fn error(&self, trouble: &ProcessorError) -> impl Future<Output = ()> + Send {
        tracing::warn!(
            event = "processor.trouble",
            partition = ?trouble.partition,
            operation = trouble.operation,
            error = %trouble.message,
            "a processor reported an error",
        );
        async {}
    }
}

/// An event as delivered to a handler.
#[derive(Clone, Debug)]
pub struct ReceivedEvent {
    pub sequence: i64,
    pub offset: i64,
    pub time: Timestamp,
    pub body: Bytes,
    key: Option<Bytes>,
}

impl ReceivedEvent {
    pub(crate) fn new(event: EventData, publication: &EventPublication) -> Self {
        Self {
            sequence: event.sequence,
            offset: event.offset,
            time: event.time,
            body: event.body,
            key: publication.key_bytes(),
        }
    }

    pub(crate) fn parked(parked: &crate::dead_letter::DeadLetter) -> Self {
        Self {
            sequence: parked.sequence,
            offset: parked.offset,
            time: parked.enqueued,
            body: parked.body.clone(),
            key: parked.key.clone().map(Bytes::from),
        }
    }

    /// The partition key.
    pub fn key(&self) -> Option<&str> {
        std::str::from_utf8(self.key.as_deref()?).ok()
    }
}

/// The start of handling a partition.
#[derive(Debug)]
pub struct PartitionStart {
    pub partition: u32,
    /// The start position; the handler may change it.
    pub start: EventPosition,
}

/// Why a partition is no longer handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The processor stops.
    Shutdown,
    /// Another member has the partition.
    OwnershipLost,
}

/// An error in a processor.
#[derive(Clone, Debug)]
pub struct ProcessorError {
    /// `None` if it concerns the whole processor.
    pub partition: Option<u32>,
    /// The operation that failed.
    pub operation: &'static str,
    pub message: String,
    /// Attempts of the same event so far.
    pub attempts: u32,
}

/// The handler's access to checkpoints, state and the transaction.
pub struct Context<'a> {
    pub(crate) partition: u32,
    pub(crate) scope: &'a str,
    /// With exactly-once: the replica of its state, and the transaction.
    pub(crate) state: Option<(&'a Replica, Tx)>,
    /// A checkpoint requested by the handler.
    pub(crate) wanted: Option<(i64, i64)>,
}

impl<'a> Context<'a> {
    /// The partition of the event hub.
    pub fn partition(&self) -> u32 {
        self.partition
    }

    /// Requests a checkpoint at this event, written once the handler has succeeded.
    pub fn checkpoint(&mut self, event: &ReceivedEvent) {
        self.wanted = Some((event.sequence, event.offset));
    }

    /// The collections of this group and partition, with exactly-once. For others in
    /// the same store partition use [`Context::replica`].
    pub fn state(&self) -> Result<State> {
        Ok(self.replica()?.scope(self.scope))
    }

    /// All collections of the store partition that hosts this partition.
    pub fn replica(&self) -> Result<&'a Replica> {
        let (replica, _) = self.state.as_ref().ok_or_else(not_transactional)?;
        Ok(replica)
    }

    /// The transaction that is committed together with the checkpoint.
    pub fn transaction(&mut self) -> Result<&mut Tx> {
        let (_, tx) = self.state.as_mut().ok_or_else(not_transactional)?;
        Ok(tx)
    }
}

fn not_transactional() -> Error {
    let words = "a processor has transactions with `Guarantee::ExactlyOnce` only; choose it";
    Error::new(ErrorKind::HandlerFailed, words)
}

/// Turns a handler's panic into an error; the partition's task continues.
pub(crate) async fn caught(handler: impl Future<Output = HandlerResult>) -> HandlerResult {
    match AssertUnwindSafe(handler).catch_unwind().await {
        Ok(outcome) => outcome,
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            let text = text.unwrap_or_default();
            Err(format!("the handler panicked: {text}").into())
        }
    }
}

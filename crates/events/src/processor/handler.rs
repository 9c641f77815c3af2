//! What a user of processors writes.

use std::future::Future;
use std::panic::AssertUnwindSafe;

use bytes::Bytes;
use futures_util::FutureExt;
use steadfast_collections::{Replica, State, Tx};
use steadfast_core::clock::Timestamp;

use crate::batch::{Event, Publication};
use crate::error::{Error, Kind, Result};
use crate::position::Position;

/// Why a handler could not do its work.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What a handler answers.
pub type Handled = std::result::Result<(), Failure>;

/// Handles the events of a group. What a processor can do, with an example, is told
/// in `docs/guides/events.md`. One handler serves all partitions of a processor:
/// within a partition its calls come one after the other, across partitions at the
/// same time.
pub trait Handler: Send + Sync + 'static {
    /// Handles events of one partition, in order. If it fails they come again.
    fn handle(
        &self,
        events: &[Received],
        context: &mut Context<'_>,
    ) -> impl Future<Output = Handled> + Send;

    /// Called once before a partition's first event.
    fn open(&self, _opening: &mut Opening) -> impl Future<Output = Handled> + Send {
        async { Ok(()) }
    }

    /// Called once after a partition's last event, before it is given up.
    fn close(&self, _partition: u32, _why: CloseReason) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// Told of everything that goes wrong. The processor goes on.
    fn error(&self, trouble: &Trouble) -> impl Future<Output = ()> + Send {
        tracing::warn!(
            event = "processor.trouble",
            partition = ?trouble.partition,
            operation = trouble.operation,
            error = %trouble.message,
            "a processor is in trouble",
        );
        async {}
    }
}

/// An event as a handler gets it.
#[derive(Clone, Debug)]
pub struct Received {
    pub sequence: i64,
    pub offset: i64,
    pub time: Timestamp,
    pub body: Bytes,
    key: Option<Bytes>,
}

impl Received {
    pub(crate) fn new(event: Event, publication: &Publication) -> Self {
        Self {
            sequence: event.sequence,
            offset: event.offset,
            time: event.time,
            body: event.body,
            key: publication.key_bytes(),
        }
    }

    pub(crate) fn parked(parked: &crate::parked::Parked) -> Self {
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

/// A partition that begins to be handled.
#[derive(Debug)]
pub struct Opening {
    pub partition: u32,
    /// Where it starts; may be changed.
    pub start: Position,
}

/// Why a partition is no longer handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The processor stops.
    Shutdown,
    /// Another member has the partition.
    OwnershipLost,
}

/// Something went wrong.
#[derive(Clone, Debug)]
pub struct Trouble {
    /// `None` if it concerns the whole processor.
    pub partition: Option<u32>,
    /// What was being done.
    pub operation: &'static str,
    pub message: String,
    /// How often the same event was tried by now.
    pub attempts: u32,
}

/// What a handler has beside the events.
pub struct Context<'a> {
    pub(crate) partition: u32,
    pub(crate) scope: &'a str,
    /// With exactly-once: where its state is, and the transaction that it is part of.
    pub(crate) state: Option<(&'a Replica, Tx<'a>)>,
    /// A checkpoint that the handler wants to have written.
    pub(crate) wanted: Option<(i64, i64)>,
}

impl<'a> Context<'a> {
    /// The partition of the event hub.
    pub fn partition(&self) -> u32 {
        self.partition
    }

    /// Has a checkpoint written behind this event, once the handler has succeeded.
    pub fn checkpoint(&mut self, event: &Received) {
        self.wanted = Some((event.sequence, event.offset));
    }

    /// The collections of this group and partition, with exactly-once. Others that
    /// live in the same partition can be reached by [`Context::replica`].
    pub fn state(&self) -> Result<State> {
        Ok(self.replica()?.scope(self.scope))
    }

    /// All collections of the partition of the store that this partition lives in.
    pub fn replica(&self) -> Result<&'a Replica> {
        let (replica, _) = self.state.as_ref().ok_or_else(not_transactional)?;
        Ok(replica)
    }

    /// The transaction that is committed together with the checkpoint.
    pub fn transaction(&mut self) -> Result<&mut Tx<'a>> {
        let (_, tx) = self.state.as_mut().ok_or_else(not_transactional)?;
        Ok(tx)
    }
}

fn not_transactional() -> Error {
    let words = "a processor has transactions with `Guarantee::ExactlyOnce` only; choose it";
    Error::new(Kind::HandlerFailed, words)
}

/// A handler that panics has failed; the partition's task goes on.
pub(crate) async fn caught(handler: impl Future<Output = Handled>) -> Handled {
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

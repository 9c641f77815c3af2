//! Asynchronous work of a connection.

use std::sync::Arc;

use futures_util::future::{AbortHandle, Abortable, BoxFuture};
use futures_util::stream::FuturesUnordered;
use steadfast_events::{
    Error, EventPublication, EventSender, PartitionReader, PendingPublication, ProducerState,
    PublishReceipt,
};
use steadfast_net::access::{AccessError, KeyRing};
use tokio::sync::watch;

use super::condition::Condition;
use super::link::{AbortGuard, IncomingPublication};
use super::permit::{CurrentHub, TokenPermit};

/// The result of completed work.
pub(super) enum WorkCompletion {
    /// The attach of a producer can be answered.
    Sender {
        link: u64,
        publisher: Option<String>,
        result: Result<(EventSender, Option<ProducerState>), Condition>,
    },
    /// The attach of a consumer can be answered.
    Reader {
        link: u64,
        wants_tail: bool,
        result: Result<Box<PartitionReader>, Condition>,
    },
    /// A publication was submitted or failed.
    Submitted {
        link: u64,
        taken: DeliveryReceipt,
        result: Result<PendingPublication, Error>,
    },
    /// A publication is durable or failed.
    Published {
        link: u64,
        taken: DeliveryReceipt,
        result: Result<PublishReceipt, Error>,
    },
    /// A reader has finished a fetch.
    Fetched {
        link: u64,
        reader: Box<PartitionReader>,
        result: Result<Option<EventPublication>, Error>,
    },
    /// A reader that waited has received a publication.
    Waited {
        link: u64,
        reader: Box<PartitionReader>,
        result: Result<EventPublication, Error>,
    },
    /// A reader lost its partition.
    Cut { link: u64, why: Error },
    /// A token was verified or refused.
    Token {
        request: NodeRequest,
        audience: String,
        result: Result<TokenPermit, AccessError>,
    },
    /// A request is answered.
    Answer {
        request: NodeRequest,
        message: Vec<u8>,
    },
    /// The server's keys have changed.
    Keys(watch::Receiver<Arc<KeyRing>>),
    /// The current event hubs whose policies have signed tokens.
    Policies {
        found: Vec<CurrentHub>,
        revisions: watch::Receiver<u64>,
    },
    /// The work was cancelled.
    Cancelled,
}

/// The delivery of a publication that is not durable yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeliveryReceipt {
    pub(super) delivery: u32,
    pub(super) settled: bool,
    pub(super) bytes: usize,
}

impl DeliveryReceipt {
    pub(super) fn of(taken: &IncomingPublication) -> Self {
        Self {
            delivery: taken.delivery,
            settled: taken.settled,
            bytes: taken.bytes,
        }
    }
}

/// A request that waits for its reply.
#[derive(Clone, Debug)]
pub(super) struct NodeRequest {
    /// The link of the request, its delivery there, and whether it is settled.
    pub(super) link: u64,
    pub(super) delivery: u32,
    pub(super) settled: bool,
    pub(super) node: super::link::ManagementNode,
    pub(super) channel: u16,
    pub(super) reply_to: Option<String>,
    /// The id of the request, encoded.
    pub(super) id: Vec<u8>,
}

pub(super) type PendingWork = FuturesUnordered<BoxFuture<'static, WorkCompletion>>;

/// Work that is cancelled with its link, and the guard that cancels it.
pub(super) fn bound(
    future: impl Future<Output = WorkCompletion> + Send + 'static,
) -> (BoxFuture<'static, WorkCompletion>, AbortGuard) {
    let (handle, registration) = AbortHandle::new_pair();
    let work = Abortable::new(future, registration);
    let work = Box::pin(async move { work.await.unwrap_or(WorkCompletion::Cancelled) });
    (work, AbortGuard(handle))
}

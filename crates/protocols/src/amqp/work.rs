//! Asynchronous work of a connection.

use std::sync::Arc;

use futures_util::future::{AbortHandle, Abortable, BoxFuture};
use futures_util::stream::FuturesUnordered;
use steadfast_events::{Error, ProducerState, Publication, Published, Reader, Sender, Submitted};
use tokio::sync::watch;

use super::fault::Fault;
use super::link::{Aborted, Taken};
use super::permit::{Found, Permit};
use crate::access::{Denied, Ring};

/// The result of completed work.
pub(super) enum Done {
    /// The attach of a producer can be answered.
    Sender {
        link: u64,
        publisher: Option<String>,
        result: Result<(Sender, Option<ProducerState>), Fault>,
    },
    /// The attach of a consumer can be answered.
    Reader {
        link: u64,
        wants_tail: bool,
        result: Result<Box<Reader>, Fault>,
    },
    /// A publication was submitted or failed.
    Submitted {
        link: u64,
        taken: Receipt,
        result: Result<Submitted, Error>,
    },
    /// A publication is durable or failed.
    Published {
        link: u64,
        taken: Receipt,
        result: Result<Published, Error>,
    },
    /// A reader has finished a fetch.
    Looked {
        link: u64,
        reader: Box<Reader>,
        result: Result<Option<Publication>, Error>,
    },
    /// A reader that waited has received a publication.
    Waited {
        link: u64,
        reader: Box<Reader>,
        result: Result<Publication, Error>,
    },
    /// A reader lost its partition.
    Cut { link: u64, why: Error },
    /// A token was verified or refused.
    Token {
        request: Asked,
        audience: String,
        result: Result<Permit, Denied>,
    },
    /// A request is answered.
    Answer { request: Asked, message: Vec<u8> },
    /// The server's keys have changed.
    Keys(watch::Receiver<Arc<Ring>>),
    /// The current event hubs whose policies have signed tokens.
    Policies {
        found: Vec<Found>,
        revisions: watch::Receiver<u64>,
    },
    /// The work was cancelled.
    Nobody,
}

/// The delivery of a publication that is not durable yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Receipt {
    pub(super) delivery: u32,
    pub(super) settled: bool,
    pub(super) bytes: usize,
}

impl Receipt {
    pub(super) fn of(taken: &Taken) -> Self {
        Self {
            delivery: taken.delivery,
            settled: taken.settled,
            bytes: taken.bytes,
        }
    }
}

/// A request that waits for its reply.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// The link of the request, its delivery there, and whether it is settled.
    pub(super) link: u64,
    pub(super) delivery: u32,
    pub(super) settled: bool,
    pub(super) desk: super::link::Desk,
    pub(super) channel: u16,
    pub(super) reply_to: Option<String>,
    /// The id of the request, encoded.
    pub(super) id: Vec<u8>,
}

pub(super) type Work = FuturesUnordered<BoxFuture<'static, Done>>;

/// Work that is cancelled with its link, and the guard that cancels it.
pub(super) fn bound(
    future: impl Future<Output = Done> + Send + 'static,
) -> (BoxFuture<'static, Done>, Aborted) {
    let (handle, registration) = AbortHandle::new_pair();
    let work = Abortable::new(future, registration);
    let work = Box::pin(async move { work.await.unwrap_or(Done::Nobody) });
    (work, Aborted(handle))
}

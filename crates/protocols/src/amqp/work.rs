//! What a connection waits for beside its socket.

use std::sync::Arc;

use futures_util::future::{AbortHandle, Abortable, BoxFuture};
use futures_util::stream::FuturesUnordered;
use steadfast_events::{Error, ProducerState, Publication, Published, Reader, Sender, Submitted};
use tokio::sync::watch;

use super::fault::Fault;
use super::link::{Aborted, Taken};
use super::permit::{Found, Permit};
use crate::access::{Denied, Ring};

/// Something has come to its end.
pub(super) enum Done {
    /// A link to send on can be answered.
    Sender {
        link: u64,
        publisher: Option<String>,
        result: Result<(Sender, Option<ProducerState>), Fault>,
    },
    /// A link to read from can be answered.
    Reader {
        link: u64,
        wants_tail: bool,
        result: Result<Box<Reader>, Fault>,
    },
    /// A publication is in its queue, or not.
    Submitted {
        link: u64,
        taken: Receipt,
        result: Result<Submitted, Error>,
    },
    /// A publication is durable, or not.
    Published {
        link: u64,
        taken: Receipt,
        result: Result<Published, Error>,
    },
    /// A reader has looked for what is there.
    Looked {
        link: u64,
        reader: Box<Reader>,
        result: Result<Option<Publication>, Error>,
    },
    /// A reader has waited for what comes.
    Waited {
        link: u64,
        reader: Box<Reader>,
        result: Result<Publication, Error>,
    },
    /// A reader was cut off.
    Cut { link: u64, why: Error },
    /// A token is verified, or not.
    Token {
        request: Asked,
        audience: String,
        result: Result<Permit, Denied>,
    },
    /// A request is answered.
    Answer { request: Asked, message: Vec<u8> },
    /// The server's keys have changed.
    Keys(watch::Receiver<Arc<Ring>>),
    /// Event hubs whose policies have signed tokens, as they are now.
    Policies {
        found: Vec<Found>,
        revisions: watch::Receiver<u64>,
    },
    /// The link that wanted to know is gone.
    Nobody,
}

/// What remains of a publication until it is durable.
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

/// Where an answer goes.
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

/// Work that ends when its link does, and what ends it.
pub(super) fn bound(
    future: impl Future<Output = Done> + Send + 'static,
) -> (BoxFuture<'static, Done>, Aborted) {
    let (handle, registration) = AbortHandle::new_pair();
    let work = Abortable::new(future, registration);
    let work = Box::pin(async move { work.await.unwrap_or(Done::Nobody) });
    (work, Aborted(handle))
}

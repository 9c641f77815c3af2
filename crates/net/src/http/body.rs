//! Request bodies, read in one place for all routes.
//!
//! A handler authenticates a request before it reads the body. The declared length is
//! checked first. The bytes are charged to the budget of all bodies and to the share of
//! the client until the request is answered. A body has to arrive in time.
//!
//! A body that is too large is read on for a while and dropped: a client that writes all
//! of it before it reads the response would see a broken connection otherwise.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, BodyDataStream, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::Extensions;
use axum::middleware::{self, Next};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use parking_lot::Mutex;
use steadfast_core::limits;
use tokio::time::{Instant, Sleep};

use super::body_pool::{BodyPool, BodyReservation, BodySender};
use super::forwarded::ForwardedClient;
use crate::access::RequestKey;
use crate::listen::network;

/// `Retry-After` when there is no room for a body, in seconds.
pub const RETRY_SECONDS: &str = "1";

/// The memory budget for the bodies of all requests of a node.
#[derive(Clone, Debug)]
pub struct BodyBudget {
    room: Arc<BodyPool>,
    /// For requests that are read and wait for the work of others.
    waiting: Arc<BodyPool>,
}

/// Why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    TooLarge,
    TooSlow,
    /// The bodies of other requests leave no room for it.
    Busy,
    Broken,
}

/// The part of the budget that a request holds.
#[derive(Clone)]
struct BodyCharge {
    budget: BodyBudget,
    prover: RequestKey,
    address: Option<IpAddr>,
    held: Arc<Mutex<Option<BodyReservation>>>,
}

/// The chunks of a body, charged and in time.
pub struct BodyChunks {
    source: BodyDataStream,
    charge: Option<BodyCharge>,
    began: Instant,
    deadline: Pin<Box<Sleep>>,
    read: usize,
    /// Maximum length in bytes.
    most: usize,
}

impl BodyBudget {
    /// The whole budget.
    pub fn new() -> Self {
        let pool = || Arc::new(BodyPool::new(limits::BODIES_BYTES));
        Self {
            room: pool(),
            waiting: pool(),
        }
    }

    /// Charges the bodies of these routes to this budget instead of any other.
    pub fn wrap(self, routes: Router) -> Router {
        routes.layer(middleware::from_fn_with_state(self, account))
    }
}

impl Default for BodyBudget {
    fn default() -> Self {
        Self::new()
    }
}

/// Adds a charge to a request, which lasts until it is answered.
pub(super) async fn account(
    State(bodies): State<BodyBudget>,
    mut request: Request,
    next: Next,
) -> Response {
    let client = request.extensions().get::<ForwardedClient>();
    let prover = RequestKey::default();
    let charge = BodyCharge {
        budget: bodies,
        prover: prover.clone(),
        address: client.map(|client| network(client.address)),
        held: Arc::default(),
    };
    request.extensions_mut().insert(charge.clone());
    let response = prover.scope(next.run(request)).await;
    charge.release();
    response
}

impl BodyCharge {
    /// Reserves room for received bytes: more than they need, so that a body waits a few
    /// times only, but not more than all of it will need. Announced bytes reserve nothing.
    async fn reserve(&self, bytes: usize, most: usize) -> Result<(), BodyError> {
        let needed = bytes.saturating_sub(limits::BODY_FREE_BYTES);
        let reserved = self.held.lock().as_ref().map_or(0, BodyReservation::bytes);
        if needed <= reserved {
            return Ok(());
        }
        let least = needed - reserved;
        let due = least.max(reserved).max(limits::BODY_STEP_BYTES);
        let due = due.min(most.saturating_sub(reserved)).max(least);
        let sender = self.sender();
        let waiting = self.budget.room.take(&sender, reserved, least, due);
        let Ok(more) = tokio::time::timeout(limits::BODY_WAIT, waiting).await else {
            return Err(BodyError::Busy);
        };
        let mut held = self.held.lock();
        match &mut *held {
            Some(own) => own.merge(more),
            none => *none = Some(more),
        }
        Ok(())
    }

    /// Moves the body of a request that is read, and now waits for the work of others, to
    /// the memory for such requests: it must not keep out the bodies that this work needs.
    fn defer(&self) -> Result<(), BodyError> {
        let mut held = self.held.lock();
        if let Some(own) = &mut *held {
            let moved = self.budget.waiting.try_take(&self.sender(), own.bytes());
            *own = moved.ok_or(BodyError::Busy)?;
        }
        Ok(())
    }

    fn sender(&self) -> BodySender {
        BodySender {
            key: self.prover.name().map(str::to_owned),
            address: self.address,
        }
    }

    fn release(&self) {
        *self.held.lock() = None;
    }
}

impl BodyChunks {
    /// The body of a request with these extensions. Without the middleware around its route
    /// nothing is charged.
    pub fn new(extensions: &Extensions, body: Body) -> Self {
        let deadline = Box::pin(tokio::time::sleep(limits::BODY_TIME));
        let most = body.size_hint().upper().and_then(|own| own.try_into().ok());
        Self {
            most: most.unwrap_or(usize::MAX),
            source: body.into_data_stream(),
            charge: extensions.get().cloned(),
            began: deadline.deadline(),
            deadline,
            read: 0,
        }
    }

    /// Limits the length of the body.
    pub fn at_most(mut self, bytes: usize) -> Self {
        self.most = self.most.min(bytes);
        self
    }

    /// The next chunk, already charged.
    pub async fn next(&mut self) -> Option<Result<Bytes, BodyError>> {
        let chunk = match self.receive().await? {
            Ok(chunk) => chunk,
            Err(unread) => return Some(Err(unread)),
        };
        if self.read > self.most {
            return Some(Err(BodyError::TooLarge));
        }
        match self.reserve().await {
            Ok(()) => Some(Ok(chunk)),
            Err(unread) => Some(Err(unread)),
        }
    }

    async fn reserve(&mut self) -> Result<(), BodyError> {
        match &self.charge {
            Some(charge) => charge.reserve(self.read, self.most).await,
            None => Ok(()),
        }
    }

    /// The next chunk. Received bytes extend the deadline of the following ones.
    async fn receive(&mut self) -> Option<Result<Bytes, BodyError>> {
        let chunk = tokio::select! {
            biased;
            chunk = self.source.next() => chunk?,
            () = &mut self.deadline => return Some(Err(BodyError::TooSlow)),
        };
        let Ok(chunk) = chunk else {
            return Some(Err(BodyError::Broken));
        };
        self.read += chunk.len();
        let earned = Duration::from_secs((self.read / limits::BODY_RATE_BYTES) as u64);
        if !earned.is_zero() {
            self.deadline.as_mut().reset(self.began + earned);
        }
        Some(Ok(chunk))
    }

    /// Drops the rest, so that the client receives the response.
    async fn discard(mut self, most: usize) {
        if let Some(charge) = self.charge.take() {
            charge.release();
        }
        while let Some(Ok(_)) = self.receive().await {
            if self.read > most + limits::BODY_REST_BYTES {
                return;
            }
        }
    }
}

/// Defers the body of a request, if it is charged.
pub fn defer(extensions: &Extensions) -> Result<(), BodyError> {
    let charge = extensions.get::<BodyCharge>();
    charge.map_or(Ok(()), BodyCharge::defer)
}

/// Reads a body of at most this many bytes.
pub async fn read(extensions: &Extensions, body: Body, most: usize) -> Result<Bytes, BodyError> {
    let declared = body.size_hint().lower();
    if declared > (most + limits::BODY_REST_BYTES) as u64 {
        return Err(BodyError::TooLarge);
    }
    let mut chunks = BodyChunks::new(extensions, body);
    if declared > most as u64 {
        chunks.discard(most).await;
        return Err(BodyError::TooLarge);
    }
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk?;
        if chunks.read > most {
            drop((first, whole, chunk));
            chunks.discard(most).await;
            return Err(BodyError::TooLarge);
        }
        match (first.is_empty(), whole.is_empty()) {
            (true, true) => first = chunk,
            (_, is_second) => {
                if is_second {
                    whole.extend_from_slice(&std::mem::take(&mut first));
                }
                whole.extend_from_slice(&chunk);
            }
        }
    }
    if whole.is_empty() {
        Ok(first)
    } else {
        Ok(whole.freeze())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream;

    use super::*;

    /// A body without a declared length, of this many chunks of ten bytes.
    fn pieces(count: usize) -> Body {
        let piece = Ok::<_, Infallible>(Bytes::from_static(&[7; 10]));
        Body::from_stream(stream::iter(vec![piece; count]))
    }

    async fn length(body: Body) -> Result<usize, BodyError> {
        let whole = read(&Extensions::new(), body, 100).await;
        whole.map(|whole| whole.len())
    }

    #[tokio::test]
    async fn a_body_has_the_same_limit_with_and_without_a_length() {
        assert_eq!(length(Body::from(vec![7; 100])).await, Ok(100));
        assert_eq!(
            length(Body::from(vec![7; 101])).await,
            Err(BodyError::TooLarge)
        );
        assert_eq!(length(pieces(10)).await, Ok(100));
        assert_eq!(length(pieces(11)).await, Err(BodyError::TooLarge));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_end_is_given_up() {
        let body = pieces(3).into_data_stream().chain(stream::pending());
        let body = length(Body::from_stream(body));
        let read = tokio::time::timeout(2 * limits::BODY_TIME, body).await;
        assert_eq!(read.expect("an end"), Err(BodyError::TooSlow));
    }
}

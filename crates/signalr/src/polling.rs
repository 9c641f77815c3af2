//! The long polling transport: polls and posts.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use steadfast_core::limits;
use steadfast_net::access::ProofWatch;
use steadfast_realtime::{
    ClientOutput, ClientTransport, ConnectionTicket, KeepAlive, TicketConnection,
};
use steadfast_wire::signalr::Protocol;

use super::admit::close_revoked;
use super::error::ClientRequestError;

/// One poll: the first opens the connection and returns at once, later ones wait.
pub(super) async fn poll(
    ticket: &Arc<ConnectionTicket>,
    wait: Option<Duration>,
    follow: Option<ProofWatch>,
) -> Result<Response, ClientRequestError> {
    let open = match ticket.opened() {
        Some(open) if open.transport == ClientTransport::LongPolling => open,
        Some(_) => return Err(ClientRequestError::other_transport()),
        None => return Ok(answer(&*begin(ticket, follow)?, Bytes::new())),
    };
    // An older poll ends now without a message.
    open.poll
        .send_modify(|number| *number += if *number % 2 == 0 { 1 } else { 2 });
    let number = *open.poll.borrow();
    let polling = PollGuard {
        open: Arc::clone(&open),
        number,
    };
    let mut newest = open.poll.subscribe();
    let wait = wait.unwrap_or(limits::POLL_TIME);
    let taken = tokio::select! {
        biased;
        _ = newest.wait_for(|newest| *newest != number) => return Ok(over()),
        taken = open.client.outgoing(0, KeepAlive::Requests) => taken,
        () = tokio::time::sleep(wait) => ClientOutput::Data(Bytes::new()),
    };
    drop(polling);
    match taken {
        ClientOutput::Data(bytes) => Ok(answer(&open, bytes)),
        ClientOutput::Over | ClientOutput::Displaced => {
            open.client.leave(None);
            Ok(over())
        }
    }
}

/// Opens the connection: on the first poll, or on a post before it.
fn begin(
    ticket: &Arc<ConnectionTicket>,
    follow: Option<ProofWatch>,
) -> Result<Arc<TicketConnection>, ClientRequestError> {
    let open = ticket.open(ClientTransport::LongPolling, limits::CLIENT_POST_BYTES)?;
    tokio::spawn(keep(Arc::clone(&open), gap(ticket), follow));
    Ok(open)
}

/// How long the client may be absent between two polls: its token may set it
/// (`MaxPollIntervalInSeconds` of the SDK).
fn gap(ticket: &ConnectionTicket) -> Duration {
    let said = ticket.caller().claim("asrs.s.ttl");
    let seconds = said.and_then(|own| own.parse().ok());
    seconds.map_or(limits::POLL_GAP, |seconds: u64| {
        Duration::from_secs(seconds.max(1)).min(limits::LONGEST_POLL_GAP)
    })
}

/// Handles a message of the client.
pub(super) async fn post(
    ticket: &Arc<ConnectionTicket>,
    bytes: Bytes,
    follow: Option<ProofWatch>,
) -> Result<Response, ClientRequestError> {
    let open = match ticket.opened() {
        Some(open) => open,
        // Some clients send their handshake before they poll.
        None => begin(ticket, follow)?,
    };
    if open.transport == ClientTransport::WebSockets {
        let text = "POST requests are not allowed for WebSocket connections.";
        return Err(ClientRequestError::new(
            StatusCode::METHOD_NOT_ALLOWED,
            text,
        ));
    }
    let mut inlet = open.inlet.lock().await;
    // The next poll reports an ended connection.
    let _ = inlet.take(bytes).await;
    Ok(StatusCode::OK.into_response())
}

/// The client closes the connection.
pub(super) fn end(ticket: &ConnectionTicket) -> Result<Response, ClientRequestError> {
    match ticket.opened() {
        Some(open) if open.transport == ClientTransport::LongPolling => {
            open.client.leave(None);
            Ok(StatusCode::ACCEPTED.into_response())
        }
        _ => {
            let text = "Cannot terminate this connection via the DELETE endpoint.";
            Err(ClientRequestError::new(StatusCode::BAD_REQUEST, text))
        }
    }
}

/// A poll in progress. Dropping it starts the time-out for the next poll.
struct PollGuard {
    open: Arc<TicketConnection>,
    number: u64,
}

impl Drop for PollGuard {
    fn drop(&mut self) {
        let number = self.number;
        self.open.poll.send_if_modified(|newest| {
            let is_newest = *newest == number;
            if is_newest {
                *newest += 1;
            }
            is_newest
        });
    }
}

/// Closes a client that stops polling or whose key is revoked. The count is odd while a
/// poll is in progress.
async fn keep(open: Arc<TicketConnection>, gap: Duration, mut follow: Option<ProofWatch>) {
    let mut polls = open.poll.subscribe();
    let revoked = close_revoked(&open.client, &mut follow);
    tokio::pin!(revoked);
    loop {
        let number = *polls.borrow_and_update();
        let is_polled = number % 2 == 1;
        tokio::select! {
            () = open.client.gone() => return,
            _ = polls.changed() => {}
            () = &mut revoked => {}
            () = tokio::time::sleep(gap), if !is_polled => {
                open.client.leave(Some("the client does not poll any more"));
                return;
            }
        }
    }
}

fn answer(open: &TicketConnection, bytes: Bytes) -> Response {
    let is_binary = open.client.protocol().is_some_and(Protocol::is_binary);
    let kind = if is_binary {
        "application/octet-stream"
    } else {
        "text/plain"
    };
    let headers = [(CONTENT_TYPE, kind), (CACHE_CONTROL, "no-cache, no-store")];
    (headers, bytes).into_response()
}

fn over() -> Response {
    let headers = [(CACHE_CONTROL, "no-cache, no-store")];
    (StatusCode::NO_CONTENT, headers).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use futures_util::future::BoxFuture;
    use steadfast_realtime::{
        ClientIdentity, ClientOptions, Realtime, ServiceMode, Upstream, UpstreamEvent,
        UpstreamResponse,
    };

    use super::*;

    /// An upstream without events.
    struct Deaf;

    impl Upstream for Deaf {
        fn wants(&self, _: &str, _: &str, _: &str) -> bool {
            false
        }

        fn tell(&self, _: UpstreamEvent) -> BoxFuture<'_, Result<UpstreamResponse, String>> {
            Box::pin(std::future::pending())
        }
    }

    /// A service that handles handshakes itself, and a ticket of it.
    fn ticket(claims: &[(&str, &str)]) -> (Realtime, Arc<ConnectionTicket>) {
        let claims = claims.iter();
        let claims = claims.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let caller = ClientIdentity {
            claims: claims.collect(),
            ..ClientIdentity::default()
        };
        let realtime = Realtime::new("here");
        realtime.set_mode(ServiceMode::Serverless, Arc::new(Deaf));
        let ticket = realtime.negotiate("hub", caller, ClientOptions::default(), true);
        (realtime, ticket.expect("a ticket"))
    }

    async fn said(ticket: &Arc<ConnectionTicket>) -> Bytes {
        let Ok(answer) = poll(ticket, None, None).await else {
            panic!("no answer");
        };
        assert_eq!(answer.status(), StatusCode::OK);
        let body = to_bytes(answer.into_body(), 99).await;
        body.expect("a body")
    }

    #[tokio::test(start_paused = true)]
    async fn realtime_08_an_idle_poll_ends_after_its_time() {
        let (_realtime, ticket) = ticket(&[]);
        assert_eq!(said(&ticket).await, "");
        let hello = Bytes::from_static(b"{\"protocol\":\"json\",\"version\":1}\x1e");
        assert!(post(&ticket, hello, None).await.is_ok());
        assert_eq!(said(&ticket).await, "{}\x1e");
        let began = tokio::time::Instant::now();
        assert_eq!(said(&ticket).await, "");
        let waited = began.elapsed();
        assert!(
            waited >= limits::POLL_TIME && waited < limits::POLL_TIME + Duration::from_secs(1),
            "{waited:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_polling_client_is_gone_after_the_gap_that_its_token_names() {
        for (claims, gap) in [
            (&[][..], limits::POLL_GAP),
            (&[("asrs.s.ttl", "2")], Duration::from_secs(2)),
            (&[("asrs.s.ttl", "60")], Duration::from_secs(60)),
            (&[("asrs.s.ttl", "9000")], limits::LONGEST_POLL_GAP),
        ] {
            let (_realtime, ticket) = ticket(claims);
            assert_eq!(said(&ticket).await, "");
            let open = ticket.opened().expect("it was polled");
            let began = tokio::time::Instant::now();
            open.client.gone().await;
            let away = began.elapsed();
            assert!(
                away >= gap && away < gap + Duration::from_secs(1),
                "{claims:?}: {away:?}"
            );
        }
    }
}

//! Clients that poll, and post what they say.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use steadfast_core::limits;
use steadfast_realtime::{Open, Outgoing, Pulse, Ticket, Transport};
use steadfast_wire::signalr::Protocol;

use super::refusal::Refusal;

/// One poll: the first opens the connection and returns at once, later ones wait.
pub(super) async fn poll(
    ticket: &Arc<Ticket>,
    wait: Option<Duration>,
) -> Result<Response, Refusal> {
    let open = match ticket.opened() {
        Some(open) if open.transport == Transport::LongPolling => open,
        Some(_) => return Err(Refusal::other_transport()),
        None => return Ok(answer(&*begin(ticket)?, Bytes::new())),
    };
    // An older poll ends now, without having taken anything.
    open.poll
        .send_modify(|number| *number += if *number % 2 == 0 { 1 } else { 2 });
    let number = *open.poll.borrow();
    let polling = Polling {
        open: Arc::clone(&open),
        number,
    };
    let mut newest = open.poll.subscribe();
    let wait = wait.unwrap_or(limits::POLL_TIME);
    let taken = tokio::select! {
        biased;
        _ = newest.wait_for(|newest| *newest != number) => return Ok(over()),
        taken = open.client.outgoing(0, Pulse::Requests) => taken,
        () = tokio::time::sleep(wait) => Outgoing::Data(Bytes::new()),
    };
    drop(polling);
    match taken {
        Outgoing::Data(bytes) => Ok(answer(&open, bytes)),
        Outgoing::Over | Outgoing::Displaced => {
            open.client.leave(None);
            Ok(over())
        }
    }
}

/// Opens the connection: by the first poll, or by what a client posts before it.
fn begin(ticket: &Arc<Ticket>) -> Result<Arc<Open>, Refusal> {
    let open = ticket.open(Transport::LongPolling, limits::CLIENT_POST_BYTES)?;
    tokio::spawn(keep(Arc::clone(&open)));
    Ok(open)
}

/// What the client says.
pub(super) async fn post(ticket: &Arc<Ticket>, bytes: Bytes) -> Result<Response, Refusal> {
    let open = match ticket.opened() {
        Some(open) => open,
        // One of the clients says hello before it polls.
        None => begin(ticket)?,
    };
    if open.transport == Transport::WebSockets {
        let text = "POST requests are not allowed for WebSocket connections.";
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, text));
    }
    let mut inlet = open.inlet.lock().await;
    // A connection that has ended says so where it is read.
    let _ = inlet.take(bytes).await;
    Ok(StatusCode::OK.into_response())
}

/// The client wants to end.
pub(super) fn end(ticket: &Ticket) -> Result<Response, Refusal> {
    match ticket.opened() {
        Some(open) if open.transport == Transport::LongPolling => {
            open.client.leave(None);
            Ok(StatusCode::ACCEPTED.into_response())
        }
        _ => {
            let text = "Cannot terminate this connection via the DELETE endpoint.";
            Err(Refusal::new(StatusCode::BAD_REQUEST, text))
        }
    }
}

/// A poll that waits. When it is dropped, its client has a while for the next one.
struct Polling {
    open: Arc<Open>,
    number: u64,
}

impl Drop for Polling {
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

/// Ends a client that does not poll any more. Polls in progress have odd numbers.
async fn keep(open: Arc<Open>) {
    let mut polls = open.poll.subscribe();
    loop {
        let number = *polls.borrow_and_update();
        let is_polled = number % 2 == 1;
        tokio::select! {
            () = open.client.gone() => return,
            _ = polls.changed() => {}
            () = tokio::time::sleep(limits::POLL_GAP), if !is_polled => {
                open.client.leave(Some("the client does not poll any more"));
                return;
            }
        }
    }
}

fn answer(open: &Open, bytes: Bytes) -> Response {
    let is_binary = open.client.protocol().is_some_and(Protocol::is_binary);
    let kind = match is_binary {
        true => "application/octet-stream",
        false => "text/plain",
    };
    let headers = [(CONTENT_TYPE, kind), (CACHE_CONTROL, "no-cache, no-store")];
    (headers, bytes).into_response()
}

fn over() -> Response {
    let headers = [(CACHE_CONTROL, "no-cache, no-store")];
    (StatusCode::NO_CONTENT, headers).into_response()
}

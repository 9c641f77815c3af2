//! The WebSocket transport.
//!
//! Every outgoing message holds whole hub messages. No WebSocket ping is sent: some
//! clients crash on it. The library answers incoming pings.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use bytes::Bytes;
use futures_util::future::Either;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use steadfast_core::limits;
use steadfast_net::access::ProofWatch;
use steadfast_net::listen::{ServerWebSocket, SocketLimit, Upgrade};
use steadfast_realtime::{
    ClientConnection, ClientOutput, ClientReader, ClientTransport, KeepAlive, TicketError,
};
use steadfast_wire::signalr::Protocol;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::admit::{admit, close_revoked};
use super::context::Context;
use super::error::ClientRequestError;
use super::query::QueryString;
use super::remote_poll;

/// The read buffer of an idle socket.
const QUIET_BYTES: usize = 512;

/// Opens a WebSocket: for a ticket, for a client that reconnects, or for one that skips
/// negotiation.
pub(super) async fn open(
    context: &Context,
    hub: &str,
    mut parts: Parts,
    query: &QueryString,
) -> Result<Response, ClientRequestError> {
    let admitted = admit(context, hub, &parts, query)?;
    if !admitted.may_use(ClientTransport::WebSockets) {
        return Err(ClientRequestError::new(
            StatusCode::NOT_FOUND,
            "WebSockets are not allowed",
        ));
    }
    let upgrade = Upgrade::read(&mut parts);
    let upgrade = upgrade.map_err(|(status, text)| ClientRequestError::new(status, text))?;
    let most = limits::CLIENT_MESSAGE_BYTES;
    let (inlet, socket) = match query.get("id") {
        Some(token) => {
            let ticket = match context.realtime.ticket(token) {
                Some(ticket) => Some(ticket),
                None => remote_poll::claim(context, hub, token).await,
            };
            let ticket = ticket.ok_or_else(ClientRequestError::unknown)?;
            if !ticket.hub.name().eq_ignore_ascii_case(hub) {
                return Err(ClientRequestError::unknown());
            }
            match ticket.open(ClientTransport::WebSockets, most) {
                Ok(open) => {
                    let client = Arc::clone(&open.client);
                    let lobby = Arc::clone(&ticket.hub);
                    (ClientReader::new(client, lobby, most), 0)
                }
                Err(TicketError::Busy) => {
                    let open = ticket.opened().ok_or_else(ClientRequestError::unknown)?;
                    let number = open.client.resume();
                    let number = number.ok_or(ClientRequestError::from(TicketError::Busy))?;
                    let (client, lobby) = (Arc::clone(&open.client), Arc::clone(&ticket.hub));
                    (ClientReader::new(client, lobby, most), number)
                }
                Err(refused) => return Err(refused.into()),
            }
        }
        None => {
            let mut wishes = admitted.wishes;
            // Without a connection token it cannot reconnect.
            wishes.is_stateful = false;
            let made = context.realtime.connect(hub, admitted.caller, &wishes)?;
            (ClientReader::new(made.0, made.1, most), 0)
        }
    };
    let (client, follow) = (Arc::clone(inlet.client()), admitted.follow);
    let config = WebSocketConfig::default()
        .read_buffer_size(QUIET_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(2 * limits::CLIENT_OUT_BYTES + most)
        .max_message_size(Some(most))
        .max_frame_size(Some(most));
    // Only the short handshake is expected first.
    let limit = SocketLimit::new(limits::HUB_UNGREETED_MESSAGE).counted();
    let greeted = limit.clone();
    Ok(
        upgrade.accept(&[], config, limit, move |stream| match stream {
            Ok(stream) => Either::Left(run(stream, greeted, inlet, client, socket, follow)),
            Err(_) => {
                client.socket_lost(socket, Some("the upgrade failed"));
                Either::Right(std::future::ready(()))
            }
        }),
    )
}

/// Carries bytes both ways until one side ends.
///
/// The future is most of what an idle connection holds. So the socket is split before it
/// begins, and its parts borrow from it what they share.
fn run(
    socket: ServerWebSocket,
    limit: SocketLimit,
    mut inlet: ClientReader,
    client: Arc<ClientConnection>,
    number: u64,
    mut follow: Option<ProofWatch>,
) -> impl Future<Output = ()> + Send + 'static {
    let (mut sink, mut stream) = socket.split();
    async move {
        let is_too_long = AtomicBool::new(false);
        let error = {
            let reading = read(&mut stream, &limit, &mut inlet, &is_too_long);
            let writing = write(&mut sink, &client, number, &is_too_long);
            tokio::pin!(reading, writing);
            tokio::select! {
                // The last messages may still be in the outbox.
                ended = &mut reading => if client.is_ending() {
                    let _ = tokio::time::timeout(limits::CLIENT_STALL, writing).await;
                    None
                } else {
                    ended
                },
                ended = &mut writing => ended,
                () = close_revoked(&client, &mut follow) => None,
            }
        };
        client.socket_lost(number, error.as_deref());
        // A socket that is dropped while bytes wait to be read is reset, and the client
        // might never receive the last messages.
        if is_too_long.load(Ordering::Relaxed) {
            tokio::time::sleep(limits::CLIENT_LINGER).await;
        }
    }
}

/// Reads until the client ends; returns the error, if any.
async fn read(
    stream: &mut SplitStream<ServerWebSocket>,
    limit: &SocketLimit,
    inlet: &mut ClientReader,
    is_too_long: &AtomicBool,
) -> Option<String> {
    loop {
        if inlet.client().protocol().is_some() {
            limit.lift();
        }
        let Some(message) = stream.next().await else {
            return Some("the socket was lost".to_owned());
        };
        let bytes = match message {
            Ok(Message::Text(text)) => Bytes::from(text),
            Ok(Message::Binary(bytes)) => bytes,
            Ok(Message::Ping(_) | Message::Pong(_)) => {
                inlet.client().note_activity();
                continue;
            }
            Ok(Message::Close(_)) => return None,
            Ok(Message::Frame(_)) => continue,
            Err(Error::Capacity(_)) => {
                is_too_long.store(true, Ordering::Relaxed);
                inlet.refuse_long();
                return None;
            }
            Err(error) => return Some(error.to_string()),
        };
        if inlet.take(bytes).await.is_err() {
            return None;
        }
    }
}

/// Writes until the outbox ends; returns the error, if any.
async fn write(
    sink: &mut SplitSink<ServerWebSocket, Message>,
    client: &Arc<ClientConnection>,
    number: u64,
    is_too_long: &AtomicBool,
) -> Option<String> {
    loop {
        let message = match client.outgoing(number, KeepAlive::Pings).await {
            ClientOutput::Data(bytes) => message(client, bytes),
            ClientOutput::Over => {
                let code = if is_too_long.load(Ordering::Relaxed) {
                    CloseCode::Size
                } else {
                    CloseCode::Normal
                };
                let frame = CloseFrame {
                    code,
                    reason: "".into(),
                };
                let end = sink.send(Message::Close(Some(frame)));
                let _ = tokio::time::timeout(limits::CLIENT_STALL, end).await;
                return None;
            }
            ClientOutput::Displaced => return None,
        };
        match tokio::time::timeout(limits::CLIENT_STALL, sink.send(message)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Some(error.to_string()),
            Err(_) => return Some("the client does not read".to_owned()),
        }
    }
}

/// A text message for JSON clients and before the handshake, else a binary one.
fn message(client: &ClientConnection, bytes: Bytes) -> Message {
    let is_binary = client.protocol().is_some_and(Protocol::is_binary);
    if is_binary {
        return Message::Binary(bytes);
    }
    match bytes.clone().try_into() {
        Ok(text) => Message::Text(text),
        Err(_) => Message::Binary(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size of the future that a function returns.
    fn future_bytes<A, B, C, D, E, F, R>(_: impl FnOnce(A, B, C, D, E, F) -> R) -> usize {
        size_of::<R>()
    }

    #[test]
    fn the_future_of_an_idle_connection_is_small() {
        let bytes = future_bytes(run);
        assert!(bytes <= 1800, "{bytes} bytes");
    }
}

//! AMQP inside a WebSocket, for clients behind proxies.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use bytes::Bytes;
use futures_util::{Sink, Stream};
use steadfast_core::limits;
use steadfast_net::access::AuditClient;
use steadfast_net::listen::{Admission, ServerWebSocket, SocketLimit, Upgrade, current};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_util::sync::CancellationToken;

use super::context::Context;
use super::serve::serve;

/// Where AMQP is reached over HTTP. Some clients write a slash at the end.
pub const WEBSOCKETS: [&str; 2] = ["/$servicebus/websocket", "/$servicebus/websocket/"];
/// The service's own name, and the standard's, for which clients of Rust ask.
const PROTOCOLS: [&str; 2] = ["AMQPWSB10", "amqp"];

#[derive(Clone)]
struct WebSocketState {
    context: Arc<Context>,
    stop: CancellationToken,
}

/// The route by which AMQP is reached over HTTP.
pub fn routes(context: Arc<Context>, stop: CancellationToken) -> Router {
    let door = WebSocketState { context, stop };
    let routes = WEBSOCKETS.into_iter().fold(Router::new(), |routes, path| {
        routes.route(path, get(upgrade))
    });
    routes.with_state(door)
}

async fn upgrade(State(door): State<WebSocketState>, request: Request) -> Response {
    let asker = AuditClient::current();
    let (mut parts, _) = request.into_parts();
    let upgrade = match Upgrade::read(&mut parts) {
        Ok(upgrade) => upgrade,
        Err(refusal) => return refusal.into_response(),
    };
    let most = Some(4 * limits::PUBLICATION_BYTES);
    let config = WebSocketConfig::default()
        .read_buffer_size(limits::AMQP_QUIET_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(4 * limits::AMQP_OUT_BYTES)
        .max_message_size(most)
        .max_frame_size(most);
    let limit = SocketLimit::new(limits::AMQP_UNPROVEN_MESSAGE);
    let bridged = limit.clone();
    upgrade.accept(&PROTOCOLS, config, limit, move |socket| async move {
        // The client has disconnected.
        let Ok(socket) = socket else { return };
        let stream = WebSocketBridge {
            socket,
            admission: current(),
            limit: Some(bridged),
            left: Bytes::new(),
        };
        asker.scope(serve(stream, door.context, door.stop)).await;
    })
}

/// Binary messages as a stream of bytes.
struct WebSocketBridge {
    socket: ServerWebSocket,
    admission: Option<Admission>,
    /// The message size limit before authentication.
    limit: Option<SocketLimit>,
    /// The unread rest of the last message.
    left: Bytes,
}

impl AsyncRead for WebSocketBridge {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let is_proven = self.admission.as_ref().is_none_or(Admission::is_proven);
        if is_proven && let Some(limit) = self.limit.take() {
            limit.lift();
        }
        while self.left.is_empty() {
            match ready!(Pin::new(&mut self.socket).poll_next(cx)) {
                Some(Ok(Message::Binary(bytes))) => self.left = bytes,
                // The socket answers pings itself; text messages are not AMQP.
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Text(_) | Message::Frame(_))) => {
                    return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
                }
                Some(Ok(Message::Close(_))) | None => return Poll::Ready(Ok(())),
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
            }
        }
        let count = self.left.len().min(buffer.remaining());
        let front = self.left.split_to(count);
        buffer.put_slice(&front);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for WebSocketBridge {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(Pin::new(&mut self.socket).poll_ready(cx)).map_err(io::Error::other)?;
        let message = Message::Binary(Bytes::copy_from_slice(bytes));
        Pin::new(&mut self.socket)
            .start_send(message)
            .map_err(io::Error::other)?;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket)
            .poll_flush(cx)
            .map_err(io::Error::other)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket)
            .poll_close(cx)
            .map_err(io::Error::other)
    }
}

//! The server-sent events transport.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use steadfast_core::limits;
use steadfast_net::access::ProofWatch;
use steadfast_realtime::{
    ClientConnection, ClientOutput, ClientTransport, ConnectionTicket, KeepAlive,
};

use super::admit::close_revoked;
use super::error::ClientRequestError;

/// Opens the stream: sends headers and a comment at once, so that the client sees it.
pub(super) fn open(
    ticket: &Arc<ConnectionTicket>,
    mut follow: Option<ProofWatch>,
) -> Result<Response, ClientRequestError> {
    let open = ticket.open(ClientTransport::ServerSentEvents, limits::CLIENT_POST_BYTES)?;
    // Backpressure: no message is taken while the client does not read.
    let client = Arc::clone(&open.client);
    tokio::spawn(async move {
        tokio::select! {
            () = Arc::clone(&client).watch() => {}
            () = close_revoked(&client, &mut follow) => {}
        }
    });
    let reader = SseStream {
        client: Arc::clone(&open.client),
        has_begun: false,
    };
    let body = stream::unfold(reader, |mut reader| async move {
        let bytes = reader.next().await?;
        Some((Ok::<_, Infallible>(bytes), reader))
    });
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    let fixed = HeaderValue::from_static;
    headers.insert(CONTENT_TYPE, fixed("text/event-stream"));
    headers.insert(CACHE_CONTROL, fixed("no-cache, no-store"));
    headers.insert("x-accel-buffering", fixed("no"));
    Ok(response)
}

/// The response stream; dropping it disconnects the client.
struct SseStream {
    client: Arc<ClientConnection>,
    has_begun: bool,
}

impl SseStream {
    async fn next(&mut self) -> Option<Bytes> {
        if !std::mem::replace(&mut self.has_begun, true) {
            return Some(Bytes::from_static(b":\r\n\r\n"));
        }
        match self.client.outgoing(0, KeepAlive::Pings).await {
            ClientOutput::Data(bytes) => Some(event(&bytes)),
            ClientOutput::Over | ClientOutput::Displaced => None,
        }
    }
}

impl Drop for SseStream {
    fn drop(&mut self) {
        self.client.socket_lost(0, None);
    }
}

/// Encodes bytes as one event, line by line.
fn event(bytes: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(bytes.len() + 16);
    for line in bytes.split(|byte| *byte == b'\n') {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line.strip_suffix(b"\r").unwrap_or(line));
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    Bytes::from(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn realtime_11_several_lines_are_one_event() {
        assert_eq!(event(b"{}\x1e"), "data: {}\u{1e}\r\n\r\n");
        assert_eq!(event(b"a\nb\r\nc"), "data: a\r\ndata: b\r\ndata: c\r\n\r\n");
    }
}

//! WebSockets whose messages may grow with their proof.
//!
//! A frame announces its length before its bytes, and the library allocates for it at
//! once. A frame over the current limit is held back until the limit is raised or the
//! connection ends.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;
use futures_util::task::AtomicWaker;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::governor::{Admission, current};

/// An open WebSocket.
pub type ServerWebSocket = WebSocketStream<FrameGate>;

/// The current maximum message length of a WebSocket.
#[derive(Clone, Default)]
pub struct SocketLimit(Arc<MessageLimit>);

#[derive(Default)]
struct MessageLimit {
    bytes: AtomicUsize,
    is_counted: AtomicBool,
    reader: AtomicWaker,
}

impl SocketLimit {
    /// Lets messages of up to this many bytes through.
    pub fn new(bytes: usize) -> Self {
        let limit = Self::default();
        limit.0.bytes.store(bytes, Ordering::SeqCst);
        limit
    }

    /// Counts messages as memory of the connection.
    #[must_use]
    pub fn counted(self) -> Self {
        self.0.is_counted.store(true, Ordering::SeqCst);
        self
    }

    /// Lets every message through; the socket's own limit applies.
    pub fn lift(&self) {
        if self.0.bytes.swap(usize::MAX, Ordering::SeqCst) != usize::MAX {
            self.0.reader.wake();
        }
    }

    fn allows(&self, bytes: u64) -> bool {
        bytes <= self.0.bytes.load(Ordering::SeqCst) as u64
    }
}

/// A request to open a WebSocket.
pub struct Upgrade {
    key: HeaderValue,
    protocols: Option<HeaderValue>,
    upgraded: OnUpgrade,
}

impl Upgrade {
    /// Reads the request. The error is the HTTP response.
    pub fn read(parts: &mut Parts) -> Result<Self, (StatusCode, &'static str)> {
        let holds = |name: HeaderName, part: &str| {
            let value = parts.headers.get(name).and_then(|own| own.to_str().ok());
            let mut words = value.unwrap_or("").split(',');
            words.any(|word| word.trim().eq_ignore_ascii_case(part))
        };
        if parts.method != Method::GET {
            return Err((
                StatusCode::METHOD_NOT_ALLOWED,
                "A WebSocket begins with GET",
            ));
        }
        if !holds(CONNECTION, "upgrade") || !holds(UPGRADE, "websocket") {
            return Err((
                StatusCode::BAD_REQUEST,
                "This is no request for a WebSocket",
            ));
        }
        if !holds(SEC_WEBSOCKET_VERSION, "13") {
            return Err((StatusCode::BAD_REQUEST, "Sec-WebSocket-Version must be 13"));
        }
        let key = parts.headers.get(SEC_WEBSOCKET_KEY).cloned();
        let key = key.ok_or((StatusCode::BAD_REQUEST, "Sec-WebSocket-Key is missing"))?;
        let upgraded = parts.extensions.remove::<OnUpgrade>();
        let upgraded = upgraded.ok_or((
            StatusCode::UPGRADE_REQUIRED,
            "The connection cannot become a WebSocket",
        ))?;
        Ok(Self {
            key,
            protocols: parts.headers.get(SEC_WEBSOCKET_PROTOCOL).cloned(),
            upgraded,
        })
    }

    /// Accepts the request, and hands the socket to `serve` in a task of its own; or the
    /// error if the upgrade failed.
    pub fn accept<S, F>(
        self,
        protocols: &[&'static str],
        config: WebSocketConfig,
        limit: SocketLimit,
        serve: S,
    ) -> Response
    where
        S: FnOnce(Result<ServerWebSocket, hyper::Error>) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let accept = derive_accept_key(self.key.as_bytes());
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        if let Ok(accept) = HeaderValue::from_str(&accept) {
            headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
        }
        if let Some(protocol) = protocols.iter().find(|own| self.asks_for(own)) {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
        }
        if let Some(admission) = current() {
            admission.meter(true);
        }
        let work = serve_opened(open(self.upgraded, config, limit), serve);
        match current().map(|admission| (admission.task(), admission)) {
            Some((task, admission)) => tokio::spawn(async move {
                let _task = task;
                let serving = admission.clone().serve(work);
                tokio::select! {
                    () = serving => {}
                    () = admission.wait_until_over() => {}
                }
            }),
            None => tokio::spawn(work),
        };
        response
    }

    fn asks_for(&self, protocol: &str) -> bool {
        let asked = self.protocols.as_ref().and_then(|own| own.to_str().ok());
        let mut asked = asked.unwrap_or("").split(',');
        asked.any(|own| own.trim() == protocol)
    }
}

/// Opens the socket of an accepted request.
async fn open(
    upgraded: OnUpgrade,
    config: WebSocketConfig,
    limit: SocketLimit,
) -> Result<ServerWebSocket, hyper::Error> {
    let counts = limit.0.is_counted.load(Ordering::SeqCst);
    let mut gate = FrameGate::new(TokioIo::new(upgraded.await?), limit);
    gate.counted = current().filter(|_| counts);
    Ok(ServerWebSocket::from_raw_socket(gate, Role::Server, Some(config)).await)
}

/// Hands a socket to `serve` once it is open. Each step has a box of its own, which is
/// freed before the next one begins: an idle connection holds only the last.
fn serve_opened<S, F, T>(
    opening: impl Future<Output = T> + Send + 'static,
    serve: S,
) -> impl Future<Output = ()> + Send + 'static
where
    S: FnOnce(T) -> F + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
    T: 'static,
{
    let (opening, serve) = (Box::pin(opening), Box::new(serve));
    async move {
        let serving = Box::pin(serve(opening.await));
        serving.await;
    }
}

/// The longest control frame, such as a ping.
const CONTROL_BYTES: u64 = 125;

/// Messages are counted in steps, not at every read.
const KEPT_STEP: u64 = 64 * 1024;

/// The longest header of a frame.
const HEADER_BYTES: usize = 14;

/// Lets frames through whose messages are within the limit.
pub struct FrameGate {
    inner: TokioIo<Upgraded>,
    frames: FrameTracker,
    limit: SocketLimit,
    /// Held-back bytes, from the end of the header of a frame over the limit.
    held: Vec<u8>,
    /// The connection to charge for messages; `None` if its protocol counts them itself.
    counted: Option<Admission>,
    kept: usize,
}

impl FrameGate {
    fn new(inner: TokioIo<Upgraded>, limit: SocketLimit) -> Self {
        Self {
            inner,
            frames: FrameTracker::default(),
            limit,
            held: Vec::new(),
            counted: None,
            kept: 0,
        }
    }

    /// Charges the received part of a message to the connection.
    fn keep(&mut self) -> io::Result<()> {
        let kept = (self.frames.kept / KEPT_STEP * KEPT_STEP) as usize;
        if let Some(admission) = &self.counted
            && kept != std::mem::replace(&mut self.kept, kept)
            && admission.keep(kept).is_err()
        {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        Ok(())
    }
}

/// Follows the frames that a client sends.
#[derive(Default)]
struct FrameTracker {
    header: [u8; HEADER_BYTES],
    known: usize,
    /// Bytes of the present frame that are still to come.
    left: u64,
    /// Bytes of the present message, all its frames together.
    message: u64,
    /// Bytes of it that were received, and the kind of its present frame.
    kept: u64,
    is_data: bool,
    is_last: bool,
}

impl FrameTracker {
    /// How many bytes may pass: all, or those up to the end of the header of a frame whose
    /// message is over the limit.
    fn pass(&mut self, bytes: &[u8], limit: &SocketLimit) -> io::Result<usize> {
        let mut at = 0;
        while at < bytes.len() {
            if self.left > 0 {
                let rest = (bytes.len() - at) as u64;
                let step = self.left.min(rest);
                self.left -= step;
                at += step as usize;
                self.came(step);
                continue;
            }
            self.header[self.known] = bytes[at];
            let known = self.known + 1;
            if let Some(length) = length(&self.header[..known]) {
                let is_control = self.header[0] & 0x08 != 0;
                let is_last = self.header[0] & 0x80 != 0;
                // The socket would allocate for it before it checks the length.
                if is_control && length > CONTROL_BYTES {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                self.is_data = !is_control;
                self.is_last = is_last;
                if !is_control {
                    let message = self.message.saturating_add(length);
                    if !limit.allows(message) {
                        return Ok(at);
                    }
                    self.message = if is_last { 0 } else { message };
                }
                self.left = length;
                self.known = 0;
                self.came(0);
            } else {
                self.known = known;
            }
            at += 1;
        }
        Ok(at)
    }

    /// Records received bytes of the present frame.
    fn came(&mut self, bytes: u64) {
        if self.is_data {
            self.kept += bytes;
            if self.left == 0 && self.is_last {
                self.kept = 0;
            }
        }
    }
}

/// The length of a frame, once its header is complete.
fn length(header: &[u8]) -> Option<u64> {
    let short = *header.get(1)?;
    let mask = if short & 0x80 != 0 { 4 } else { 0 };
    let (length, end) = match short & 0x7f {
        126 => {
            let bytes = header.get(2..4)?.try_into().ok()?;
            (u64::from(u16::from_be_bytes(bytes)), 4)
        }
        127 => {
            let bytes = header.get(2..10)?.try_into().ok()?;
            (u64::from_be_bytes(bytes), 10)
        }
        short => (u64::from(short), 2),
    };
    (header.len() == end + mask).then_some(length)
}

impl AsyncRead for FrameGate {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.held.is_empty() {
            let before = into.filled().len();
            ready!(Pin::new(&mut this.inner).poll_read(cx, into))?;
            let came = into.filled().len() - before;
            let passed = this.frames.pass(&into.filled()[before..], &this.limit)?;
            this.keep()?;
            if passed == came {
                return Poll::Ready(Ok(()));
            }
            this.held
                .extend_from_slice(&into.filled()[before + passed..]);
            into.set_filled(before + passed);
            if passed > 0 {
                return Poll::Ready(Ok(()));
            }
        }
        this.limit.0.reader.register(cx.waker());
        let room = this.held.len().min(into.remaining());
        let passed = this.frames.pass(&this.held[..room], &this.limit)?;
        this.keep()?;
        if passed == 0 {
            return Poll::Pending;
        }
        into.put_slice(&this.held[..passed]);
        this.held.drain(..passed);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for FrameGate {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header of a frame with a mask.
    fn header(first: u8, length: u64) -> Vec<u8> {
        let mut bytes = vec![first, 0x80 | 127];
        bytes.extend(length.to_be_bytes());
        bytes.extend([0; 4]);
        bytes
    }

    #[test]
    fn a_message_over_the_limit_waits_at_the_end_of_its_header() {
        let limit = SocketLimit::new(10);
        let mut frames = FrameTracker::default();
        let mut bytes = header(0x82, 10);
        bytes.extend([0; 10]);
        // In two frames, with a ping between them.
        bytes.extend(header(0x02, 6));
        bytes.extend([0; 6]);
        bytes.extend(header(0x89, 3));
        bytes.extend([0; 3]);
        let fine = bytes.len() + HEADER_BYTES - 1;
        bytes.extend(header(0x80, 5));
        bytes.extend([0; 5]);
        // Split at an arbitrary byte.
        let (one, other) = bytes.split_at(17);
        assert_eq!(frames.pass(one, &limit).unwrap(), 17);
        assert_eq!(frames.pass(other, &limit).unwrap(), fine - 17);
        assert_eq!(frames.pass(&bytes[fine..], &limit).unwrap(), 0);
        // The received part of the message, without the ping.
        assert_eq!(frames.kept, 6);
        limit.lift();
        let rest = bytes.len() - fine;
        assert_eq!(frames.pass(&bytes[fine..], &limit).unwrap(), rest);
        assert_eq!((frames.left, frames.message, frames.kept), (0, 0, 0));
    }

    #[test]
    fn an_idle_connection_holds_neither_its_upgrade_nor_its_handler() {
        // As large as a handler, and held until the socket is open.
        let state = [0_u8; 4096];
        let opening = async move {
            std::future::ready(()).await;
            state
        };
        let work = serve_opened(opening, move |opened: [u8; 4096]| async move {
            std::future::ready(()).await;
            assert_eq!(opened, state);
        });
        let bytes = size_of_val(&work);
        assert!(bytes <= 64, "{bytes} bytes");
    }

    #[test]
    fn a_long_control_frame_is_refused_before_there_is_room_for_it() {
        let limit = SocketLimit::new(10);
        let mut frames = FrameTracker::default();
        assert!(frames.pass(&header(0x89, 1 << 22), &limit).is_err());
        let mut frames = FrameTracker::default();
        assert!(frames.pass(&header(0x89, 125), &limit).is_ok());
    }
}

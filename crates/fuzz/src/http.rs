//! Requests to routes, over connections of a port.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use steadfast_core::clock::Clock;
use steadfast_net::http::{BodyBudget, Cors, KnownHosts, MetricRegistry, Middleware};
use tokio::io::DuplexStream;

use crate::connection::{ClientBehavior, MemoryPort, converse};

/// How long a client waits for an answer, and for the next part of one.
const PATIENCE: Duration = Duration::from_secs(600);
const PAUSE: Duration = Duration::from_secs(1);

/// The most parts of an answer that are read: some never end.
const PARTS: usize = 64;

/// An answer, as far as it was read.
pub(crate) struct ReceivedResponse {
    pub(crate) status: StatusCode,
    pub(crate) body: Vec<u8>,
}

/// Routes behind a port, and the connections of one client to it.
pub(crate) struct Web {
    port: MemoryPort,
    routes: Router,
    one: tokio::sync::Mutex<Option<http1::SendRequest<Body>>>,
    two: tokio::sync::Mutex<Option<http2::SendRequest<Body>>>,
}

impl Web {
    /// Serves routes with the middleware of every port; needs a runtime.
    pub(crate) fn new(routes: Router, clock: &Arc<dyn Clock>) -> Self {
        let frame = Middleware {
            bodies: BodyBudget::new(),
            cors: Arc::new(Cors::new(["https://example.org".to_owned()])),
            hosts: Arc::new(KnownHosts::Any),
            proxies: Arc::default(),
            metrics: Arc::new(MetricRegistry::new(Arc::clone(clock))),
        };
        Self {
            port: MemoryPort::new(),
            routes: frame.wrap(routes),
            one: tokio::sync::Mutex::default(),
            two: tokio::sync::Mutex::default(),
        }
    }

    /// Sends bytes on a new connection, and waits until it ends.
    pub(crate) async fn say(&self, bytes: &[u8], manners: ClientBehavior) {
        let (client, serving) = self.port.open_http(&self.routes);
        converse(client, serving, bytes, manners).await;
    }

    /// Sends a request; `None` if no response arrives in time, or the connection ends.
    pub(crate) async fn send(&self, request: Request<Body>) -> Option<Response<Incoming>> {
        let answer = async {
            match request.version() {
                Version::HTTP_2 => self.send_two(request).await,
                _ => self.send_one(request).await,
            }
        };
        tokio::time::timeout(PATIENCE, answer).await.ok()?
    }

    async fn send_one(&self, request: Request<Body>) -> Option<Response<Incoming>> {
        let mut kept = self.one.lock().await;
        let mut sender = match ready(kept.take()).await {
            Some(open) => open,
            None => connect_one(self.connect()).await?,
        };
        let answer = sender.send_request(request).await.ok();
        *kept = Some(sender);
        answer
    }

    async fn send_two(&self, request: Request<Body>) -> Option<Response<Incoming>> {
        let mut kept = self.two.lock().await;
        let mut sender = match kept.take() {
            Some(open) if !open.is_closed() => open,
            _ => connect_two(self.connect()).await?,
        };
        *kept = Some(sender.clone());
        drop(kept);
        sender.send_request(request).await.ok()
    }

    fn connect(&self) -> DuplexStream {
        let (client, _) = self.port.open_http(&self.routes);
        client
    }

    /// Sends a request; `None` if the response takes longer than a client waits.
    pub(crate) async fn ask(&self, request: Request<Body>) -> Option<ReceivedResponse> {
        let (parts, mut body) = self.send(request).await?.into_parts();
        let mut read = Vec::new();
        for _ in 0..PARTS {
            match tokio::time::timeout(PAUSE, body.frame()).await {
                Ok(Some(Ok(frame))) => {
                    read.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
                }
                _ => break,
            }
        }
        Some(ReceivedResponse {
            status: parts.status,
            body: read,
        })
    }
}

/// The connection, if it accepts another request.
async fn ready(kept: Option<http1::SendRequest<Body>>) -> Option<http1::SendRequest<Body>> {
    let mut open = kept?;
    open.ready().await.ok()?;
    Some(open)
}

async fn connect_one(client: DuplexStream) -> Option<http1::SendRequest<Body>> {
    let (sender, connection) = http1::handshake(TokioIo::new(client)).await.ok()?;
    tokio::spawn(connection);
    Some(sender)
}

/// Opens a connection of HTTP/2.
pub(crate) async fn connect_two(client: DuplexStream) -> Option<http2::SendRequest<Body>> {
    let shaken = http2::handshake(TokioExecutor::new(), TokioIo::new(client)).await;
    let (sender, connection) = shaken.ok()?;
    tokio::spawn(connection);
    Some(sender)
}

/// A request of gRPC with one message.
pub(crate) fn grpc(path: &str, message: &[u8]) -> Request<Body> {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let body = [&[0][..], &length.to_be_bytes(), message].concat();
    let request = Request::builder()
        .method(Method::POST)
        .version(Version::HTTP_2)
        .uri(format!("http://localhost{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    request.body(Body::from(body)).expect("the path is a path")
}

/// The methods that a record can choose.
const METHODS: [Method; 7] = [
    Method::GET,
    Method::PUT,
    Method::POST,
    Method::PATCH,
    Method::DELETE,
    Method::HEAD,
    Method::OPTIONS,
];

/// Reads a record as a request: a byte for the method, a line with path and query, lines
/// with headers, an empty line, and the body. Parts that no client could send are left
/// out; an invalid path makes no request.
pub(crate) fn request(record: &[u8], complete: impl Fn(&str) -> String) -> Option<Request<Body>> {
    let (&method, rest) = record.split_first()?;
    let end = rest.windows(2).position(|pair| pair == b"\n\n");
    let (head, body) = match end {
        Some(end) => (&rest[..end], &rest[end + 2..]),
        None => (rest, &[][..]),
    };
    let mut lines = head.split(|byte| *byte == b'\n');
    let line = std::str::from_utf8(lines.next()?).ok()?;
    let uri: Uri = complete(line).parse().ok()?;
    uri.path().starts_with('/').then_some(())?;
    let mut request = Request::new(Body::from(Bytes::copy_from_slice(body)));
    *request.method_mut() = METHODS[usize::from(method) % METHODS.len()].clone();
    *request.uri_mut() = uri;
    let headers = request.headers_mut();
    headers.insert("host", HeaderValue::from_static("localhost"));
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    for line in lines {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let name = HeaderName::from_bytes(parts.next().unwrap_or_default());
        let value = HeaderValue::from_bytes(parts.next().unwrap_or_default().trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value)
            && !FRAMING.contains(&name.as_str())
        {
            headers.insert(name, value);
        }
    }
    Some(request)
}

/// Headers that the client writes itself.
const FRAMING: [&str; 5] = [
    "content-length",
    "transfer-encoding",
    "connection",
    "upgrade",
    "expect",
];

/// The record of a request.
pub(crate) fn record(method: &Method, line: &str, body: &str) -> Vec<u8> {
    record_with(method, line, &[], body.as_bytes())
}

/// The record of a request with headers.
pub(crate) fn record_with(
    method: &Method,
    line: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Vec<u8> {
    let place = METHODS.iter().position(|own| own == method);
    let method = place.expect("a method of the list") as u8;
    let mut record = [&[method][..], line.as_bytes()].concat();
    for (name, value) in headers {
        record.extend_from_slice(format!("\n{name}: {value}").as_bytes());
    }
    record.extend_from_slice(b"\n\n");
    record.extend_from_slice(body);
    record
}

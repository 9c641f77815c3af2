//! Requests to routes, without a connection.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Method, Request, StatusCode, Uri, Version};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

/// How long a client waits for an answer, and for the next part of one.
const PATIENCE: Duration = Duration::from_secs(600);
const PAUSE: Duration = Duration::from_secs(1);

/// The most parts of an answer that are read: some never end.
const PARTS: usize = 64;

/// An answer, as far as it was read.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Vec<u8>,
}

/// Asks; nothing if the answer takes longer than a client waits.
pub(crate) async fn ask(routes: &Router, request: Request<Body>) -> Option<Answer> {
    let answer = tokio::time::timeout(PATIENCE, routes.clone().oneshot(request));
    let response = answer.await.ok()?.unwrap_or_else(|never| match never {});
    let (parts, mut body) = response.into_parts();
    let mut read = Vec::new();
    for _ in 0..PARTS {
        match tokio::time::timeout(PAUSE, body.frame()).await {
            Ok(Some(Ok(frame))) => {
                read.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
            }
            _ => break,
        }
    }
    Some(Answer {
        status: parts.status,
        body: read,
    })
}

/// A request of gRPC with one message.
pub(crate) fn grpc(path: &str, message: &[u8]) -> Request<Body> {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let body = [&[0][..], &length.to_be_bytes(), message].concat();
    let request = Request::builder()
        .method(Method::POST)
        .version(Version::HTTP_2)
        .uri(path)
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    request.body(Body::from(body)).expect("the path is a path")
}

/// The methods that a record can choose.
const METHODS: [Method; 6] = [
    Method::GET,
    Method::PUT,
    Method::POST,
    Method::PATCH,
    Method::DELETE,
    Method::HEAD,
];

/// Reads a record as a request: a byte for the method, a line with path and query, and
/// the body. Nothing if hyper would not let such a request through.
pub(crate) fn request(record: &[u8], complete: impl Fn(&str) -> String) -> Option<Request<Body>> {
    let (&method, rest) = record.split_first()?;
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let (line, body) = (&rest[..end], &rest[end + 1..]);
    let uri: Uri = complete(std::str::from_utf8(line).ok()?).parse().ok()?;
    let mut request = Request::new(Body::from(Bytes::copy_from_slice(body)));
    *request.method_mut() = METHODS[usize::from(method) % METHODS.len()].clone();
    *request.uri_mut() = uri;
    let headers = request.headers_mut();
    headers.insert("host", HeaderValue::from_static("localhost"));
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    Some(request)
}

/// The record of a request.
pub(crate) fn record(method: &Method, line: &str, body: &str) -> Vec<u8> {
    let place = METHODS.iter().position(|own| own == method);
    let method = place.expect("a method of the list") as u8;
    [&[method][..], line.as_bytes(), b"\n", body.as_bytes()].concat()
}

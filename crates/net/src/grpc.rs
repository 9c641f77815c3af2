//! One gRPC request over an HTTP/2 stream.
//!
//! Routes authenticate by the headers before the body is read here. A request must be
//! `application/grpc` over HTTP/2: web pages may send other content types to any site.

use std::convert::Infallible;
use std::pin::Pin;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::http::{HeaderMap, StatusCode, Version};
use axum::response::{IntoResponse as _, Response};
use futures_util::{Stream, StreamExt as _, stream};
use prost::Message;
use steadfast_core::limits;
use tonic::server::{Grpc, UnaryService};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;
use tower::Service;

use crate::http::{BodyChunks, BodyError};

/// The header with the final status of a request.
const STATUS: &str = "grpc-status";

/// The future of a result.
pub type GrpcFuture<T> = Pin<Box<dyn Future<Output = Result<T, Status>> + Send>>;

/// The future of an HTTP response.
pub type GrpcResponseFuture = Pin<Box<dyn Future<Output = Response> + Send>>;

/// A stream of messages.
pub type GrpcStream<A> = Pin<Box<dyn Stream<Item = Result<A, Status>> + Send>>;

/// The handler of a unary call.
struct UnaryHandler<F>(F);

impl<Q, A, F> UnaryService<Q> for UnaryHandler<F>
where
    F: FnMut(Q) -> GrpcFuture<A>,
    A: Message + 'static,
{
    type Response = A;
    type Future = GrpcFuture<tonic::Response<A>>;

    fn call(&mut self, request: tonic::Request<Q>) -> Self::Future {
        let answer = (self.0)(request.into_inner());
        Box::pin(async move { answer.await.map(tonic::Response::new) })
    }
}

/// Serves a unary call: reads the request, calls the handler, writes the response.
pub fn unary<Q, A>(
    request: axum::extract::Request,
    answer: impl FnMut(Q) -> GrpcFuture<A> + Send + 'static,
) -> GrpcResponseFuture
where
    Q: Message + Default + 'static,
    A: Message + Default + 'static,
{
    unary_within(limits::GRPC_MESSAGE_BYTES, request, answer)
}

/// The same with a maximum message length.
pub fn unary_within<Q, A>(
    most: usize,
    request: axum::extract::Request,
    answer: impl FnMut(Q) -> GrpcFuture<A> + Send + 'static,
) -> GrpcResponseFuture
where
    Q: Message + Default + 'static,
    A: Message + Default + 'static,
{
    let codec = ProstCodec::<A, Q>::default();
    let mut grpc = Grpc::new(codec).max_decoding_message_size(most);
    Box::pin(async move {
        match guarded(request, most) {
            Ok(request) => finish(grpc.unary(UnaryHandler(answer), request).await),
            Err(refused) => refused,
        }
    })
}

/// Calls a generated service with a request whose caller is known, behind the same frame.
/// The service must not accept longer messages than `limits::GRPC_MESSAGE_BYTES`.
pub fn call<S>(request: axum::extract::Request, mut service: S) -> GrpcResponseFuture
where
    S: Service<
            axum::extract::Request,
            Response = axum::http::Response<tonic::body::Body>,
            Error = Infallible,
        > + Send
        + 'static,
    S::Future: Send,
{
    Box::pin(async move {
        match guarded(request, limits::GRPC_MESSAGE_BYTES) {
            Ok(request) => match service.call(request).await {
                Ok(response) => finish(response),
                Err(never) => match never {},
            },
            Err(refused) => refused,
        }
    })
}

/// Forwards messages until `end` resolves: its status ends the stream, and the source of
/// the messages is dropped.
pub fn until<A: Send + 'static>(
    messages: GrpcStream<A>,
    end: impl Future<Output = Status> + Send + 'static,
) -> GrpcStream<A> {
    let both = Some((messages, Box::pin(end)));
    Box::pin(stream::unfold(both, |both| async move {
        let (mut messages, mut end) = both?;
        tokio::select! {
            biased;
            status = &mut end => {
                drop(messages);
                Some((Err(status), None))
            }
            message = messages.next() => Some((message?, Some((messages, end)))),
        }
    }))
}

/// Length of a message prefix: the compression flag and the message length.
const PREFIX: usize = 5;

/// The request, if it is gRPC, with a body that is charged and has to arrive in time. The
/// body is limited to one message: the library would read on behind it.
fn guarded(
    request: axum::extract::Request,
    most: usize,
) -> Result<axum::extract::Request, Response> {
    if !is_grpc(request.headers()) {
        let message = "gRPC needs the content type application/grpc";
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, message).into_response());
    }
    if request.version() < Version::HTTP_2 {
        let message = "gRPC needs HTTP/2";
        return Err((StatusCode::HTTP_VERSION_NOT_SUPPORTED, message).into_response());
    }
    let (parts, body) = request.into_parts();
    let chunks = BodyChunks::new(&parts.extensions, body).at_most(most + PREFIX);
    let chunks = stream::unfold(chunks, |mut chunks| async move {
        let chunk = chunks.next().await?;
        Some((chunk.map_err(unread), chunks))
    });
    let body = Body::from_stream(chunks);
    Ok(axum::extract::Request::from_parts(parts, body))
}

fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split([';', '+']).next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/grpc")
}

/// The status of a request whose body was not read.
pub fn unread(why: BodyError) -> Status {
    match why {
        BodyError::TooLarge => Status::resource_exhausted("the message is too large"),
        BodyError::TooSlow => Status::deadline_exceeded("the message did not come in time"),
        BodyError::Busy => Status::unavailable(
            "STF-6026: the server is reading as many bodies as it has room for; try again later",
        ),
        BodyError::Broken => Status::cancelled("the message has broken off"),
    }
}

/// The response to a request that is rejected before it is read.
pub fn refuse(status: Status) -> Response {
    finish(status.into_http::<tonic::body::Body>())
}

fn finish(response: axum::http::Response<tonic::body::Body>) -> Response {
    let mut response = response.map(Body::new);
    let status = response.headers().get(STATUS);
    let told = OWN_WORDS.iter().find(|(theirs, _)| {
        let theirs = i32::from(*theirs).to_string();
        status.is_some_and(|status| *status == theirs)
    });
    if let Some((_, ours)) = told {
        let ours = HeaderValue::from(i32::from(*ours));
        response.headers_mut().insert(STATUS, ours);
    }
    response
}

/// Maps the library's status codes for unacceptable messages. For one that is too long it
/// uses `OutOfRange` where others use `ResourceExhausted`; for one that cannot be parsed
/// `Internal`, which makes workers retry. The server itself uses neither code.
const OWN_WORDS: [(Code, Code); 2] = [
    (Code::OutOfRange, Code::ResourceExhausted),
    (Code::Internal, Code::InvalidArgument),
];

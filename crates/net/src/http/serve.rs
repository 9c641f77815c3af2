//! One connection, HTTP/1.1 or HTTP/2, until its end.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use futures_util::future::Either;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use steadfast_core::limits;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use super::body::{self, BodyBudget};
use super::cors::{self, Cors};
use super::forwarded::{self, TrustedProxies};
use super::metrics::{self, MetricRegistry};
use super::origin_check::{self, KnownHosts, OriginCheck};
use super::response::ConnectionResponses;
use super::span;
use super::tracked_body::track;
use crate::listen::{Admission, ConnectionStream, current};

/// How long a client that has sent no request may take to disconnect.
const GOODBYE: Duration = Duration::from_secs(1);

/// Routes to be merged with others.
pub type Routes = Router;

/// The middleware of all routes of a port.
#[derive(Clone)]
pub struct Middleware {
    pub bodies: BodyBudget,
    pub cors: Arc<Cors>,
    pub hosts: Arc<KnownHosts>,
    pub proxies: Arc<TrustedProxies>,
    pub metrics: Arc<MetricRegistry>,
}

impl Middleware {
    /// Wraps some routes.
    pub fn wrap(&self, routes: Router) -> Router {
        let shield = OriginCheck {
            hosts: Arc::clone(&self.hosts),
            cors: Arc::clone(&self.cors),
        };
        routes
            .layer(DefaultBodyLimit::max(limits::REST_BODY_BYTES))
            .layer(middleware::from_fn_with_state(
                self.bodies.clone(),
                body::account,
            ))
            .layer(middleware::from_fn_with_state(
                Arc::clone(&self.cors),
                cors::apply,
            ))
            .layer(middleware::from_fn_with_state(shield, origin_check::apply))
            .layer(middleware::from_fn_with_state(
                Arc::clone(&self.metrics),
                metrics::measure,
            ))
            .layer(middleware::from_fn(span::enter))
            .layer(middleware::from_fn_with_state(
                Arc::clone(&self.proxies),
                forwarded::apply,
            ))
    }
}

/// Serves a connection. On `stop` it finishes requests in flight and ends. A client that
/// sends no request, or does not read its responses, is disconnected.
///
/// A proof on one of its requests proves the connection; without one it is closed at the
/// deadline.
pub async fn serve(
    mut stream: ConnectionStream,
    peer: SocketAddr,
    routes: Router,
    stop: CancellationToken,
) {
    stream.limit_writes(limits::HTTP_WRITE_TIME);
    let admission = current();
    if let Some(admission) = &admission {
        admission.meter(false);
    }
    let asked = Arc::new(Notify::new());
    let first = Arc::clone(&asked);
    let served = admission.clone();
    let answers = ConnectionResponses::new(admission.clone());
    let counted = Arc::clone(&answers);
    let unread = stream.unread();
    let service = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
        first.notify_one();
        request
            .extensions_mut()
            .insert(forwarded::PeerAddress(peer));
        let (mut routes, answers) = (routes.clone(), Arc::clone(&counted));
        // Count the request before its task runs.
        let unproven = served.as_ref().filter(|own| !own.is_proven());
        let waiting = unproven.map(|own| own.wait(head_bytes(&request)));
        let request = track(request, &unread);
        let answer = async move {
            let turn = answers.turn().await;
            let response = routes.call(request).await?;
            if let Some(waiting) = waiting {
                waiting.answered();
            }
            let response = response.map(|body| answers.count(body));
            drop(turn);
            Ok::<_, Infallible>(response)
        };
        // HTTP/2 requests have tasks of their own.
        match served.clone() {
            Some(served) => Either::Left(served.serve(answer)),
            None => Either::Right(answer),
        }
    });
    let builder = builder();
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        () = silence(&asked) => {
            tracing::debug!(event = "http.silent_client", %peer);
            connection.as_mut().graceful_shutdown();
            let goodbye = tokio::time::timeout(GOODBYE, connection.as_mut());
            goodbye.await.unwrap_or(Ok(()))
        }
        () = answers.stalled() => {
            tracing::debug!(event = "http.stalled_client", %peer);
            Ok(())
        }
        () = unproven(admission.as_ref()) => {
            tracing::debug!(event = "http.unproven_client", %peer);
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(event = "http.connection_failed", %peer, %error);
    }
}

/// Approximate memory of the head of a request.
fn head_bytes(request: &hyper::Request<Incoming>) -> usize {
    /// Memory of one entry of the header table.
    const ENTRY: usize = 128;
    let headers = request.headers().iter();
    let headers = headers.map(|(name, value)| ENTRY + name.as_str().len() + value.len());
    let target = request.uri().path_and_query();
    headers.sum::<usize>() + target.map_or(0, |target| target.as_str().len())
}

/// Returns at the deadline of the proof. Requests in flight are still answered, until
/// the governor closes the connection.
async fn unproven(admission: Option<&Admission>) {
    if let Some(admission) = admission {
        tokio::time::sleep_until(admission.due()).await;
        if !admission.is_proven() {
            return;
        }
    }
    std::future::pending::<()>().await;
}

/// Returns if there was no request in time. Until the first bytes reveal whether a client
/// speaks HTTP/1 or 2, no other limit applies.
async fn silence(asked: &Notify) {
    let first = tokio::time::timeout(limits::HEADER_TIME, asked.notified());
    if first.await.is_ok() {
        std::future::pending::<()>().await;
    }
}

/// Spawns the tasks of an HTTP/2 connection. Their futures are boxed, as those of
/// connections are.
#[derive(Clone)]
struct BoxedExecutor;

impl<F> hyper::rt::Executor<F> for BoxedExecutor
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, work: F) {
        tokio::spawn(Box::pin(work));
    }
}

/// The limits of a connection. Streams that a client resets before they are accepted are
/// bounded by the library.
fn builder() -> Builder<BoxedExecutor> {
    let mut builder = Builder::new(BoxedExecutor);
    builder
        .http1()
        .timer(TokioTimer::new())
        .max_buf_size(limits::HTTP_HEAD_BYTES)
        .header_read_timeout(limits::HEADER_TIME);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(limits::HTTP_HEAD_BYTES as u32)
        .initial_connection_window_size(limits::HTTP_WINDOW_BYTES)
        .initial_stream_window_size(limits::HTTP_WINDOW_BYTES)
        .max_send_buf_size(limits::HTTP_SEND_BYTES)
        .keep_alive_interval(limits::PING_TIME)
        .keep_alive_timeout(limits::HEADER_TIME)
        .max_concurrent_streams(limits::HTTP_STREAMS);
    builder
}

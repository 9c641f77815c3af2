//! One connection, HTTP/1.1 or HTTP/2, until its end.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use steadfast_core::limits;
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use super::cors::{self, Cors};
use super::forwarded::{self, Proxies};
use super::metrics::{self, Registry};
use super::span;
use crate::listen::Stream;

/// What all routes of a port have around them.
#[derive(Clone)]
pub struct Frame {
    pub cors: Arc<Cors>,
    pub proxies: Arc<Proxies>,
    pub metrics: Arc<Registry>,
}

impl Frame {
    /// Puts the frame around some routes.
    pub fn around(&self, routes: Router) -> Router {
        routes
            .layer(DefaultBodyLimit::max(limits::REST_BODY_BYTES))
            .layer(middleware::from_fn_with_state(
                Arc::clone(&self.cors),
                cors::apply,
            ))
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

/// Serves a connection. On `stop` it answers what it has begun, and ends.
pub async fn serve(stream: Stream, peer: SocketAddr, routes: Router, stop: CancellationToken) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::HEADER_TIME);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits::HTTP_STREAMS);
    let service = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(forwarded::Peer(peer));
        routes.clone().call(request)
    });
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(event = "http.connection_failed", %peer, %error);
    }
}

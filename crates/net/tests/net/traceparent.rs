//! A trace that comes in goes out with what we ask.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::http::HeaderMap;
use axum::routing::get;
use opentelemetry::global;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use steadfast_core::clock::SystemClock;
use steadfast_net::http::{
    BodyBudget, Cors, KnownHosts, MetricRegistry, Middleware, TrustedProxies, propagate, serve,
};
use steadfast_net::listen::{Listener, ListenerOptions};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// Serves some routes on a port of its own until it is told to stop.
fn start(routes: Router, stop: &CancellationToken) -> SocketAddr {
    let frame = Middleware {
        bodies: BodyBudget::new(),
        cors: Arc::new(Cors::new([])),
        hosts: Arc::new(KnownHosts::Any),
        proxies: Arc::new(TrustedProxies::new([]).unwrap()),
        metrics: Arc::new(MetricRegistry::new(Arc::new(SystemClock::new()))),
    };
    let routes = frame.wrap(routes);
    let bind = ListenerOptions {
        address: "127.0.0.1:0".parse().unwrap(),
        tls: None,
        connections: 10,
    };
    let listener = Listener::bind(bind).unwrap();
    let address = listener.address();
    let end = stop.clone();
    let serving = move |stream, peer| serve(stream, peer, routes.clone(), end.clone());
    tokio::spawn(listener.run(stop.clone(), TaskTracker::new(), serving));
    address
}

#[tokio::test]
async fn a_call_that_we_make_carries_the_trace_of_the_request_that_caused_it() {
    let spans = SdkTracerProvider::builder().build();
    global::set_text_map_propagator(TraceContextPropagator::new());
    let layer = tracing_opentelemetry::layer().with_tracer(spans.tracer("test"));
    tracing_subscriber::registry().with(layer).init();
    // What another server would be told, as this one's answer.
    let told = async || {
        let mut headers = HeaderMap::new();
        propagate(&mut headers);
        headers["traceparent"].to_str().unwrap().to_owned()
    };
    let stop = CancellationToken::new();
    let address = start(Router::new().route("/", get(told)), &stop);
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::new();
    let request = client.get(format!("http://{address}/"));
    let request = request.header("traceparent", format!("00-{TRACE}-{PARENT}-01"));
    let told = request.send().await.unwrap().text().await.unwrap();
    let parts: Vec<_> = told.split('-').collect();
    assert_eq!(
        (parts[0], parts[1], parts[3]),
        ("00", TRACE, "01"),
        "{told}"
    );
    // The parent is our own span, not that of the caller.
    assert_ne!(parts[2], PARENT, "{told}");
    stop.cancel();
}

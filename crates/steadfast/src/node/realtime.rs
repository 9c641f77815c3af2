//! The port of SignalR clients and app servers.

use std::sync::Arc;

use steadfast_core::task::name_task;
use steadfast_net::http::{BodyBudget, Middleware, serve};
use steadfast_net::listen::{Certificate, Listener, ListenerOptions};
use steadfast_signalr::{Context, Routes};

use super::error::Result;
use super::inner::Inner;
use super::listen_address::ListenAddress;
use crate::config::Config;

/// Opens the port, with TLS if there is a certificate.
pub(super) fn bind(config: &Config, certificate: Option<&Arc<Certificate>>) -> Result<Listener> {
    Ok(Listener::bind(ListenerOptions {
        address: config.address(config.realtime_port),
        tls: certificate.map(|certificate| certificate.server(&["h2", "http/1.1"])),
        connections: config.connections,
    })?)
}

/// The routes of clients, which are the same on every port.
pub(super) fn routes(inner: &Inner) -> Routes {
    // Clients of hubs are the least trusted ones: they use no body budget of other clients.
    let routes = steadfast_signalr::routes(&Arc::new(context(inner)), inner.hosted.paths());
    BodyBudget::new().wrap(routes)
}

/// The context that all requests of clients share.
pub(super) fn context(inner: &Inner) -> Context {
    Context {
        realtime: inner.hosted.realtime.clone(),
        access: Arc::clone(&inner.access),
        clock: Arc::clone(&inner.clock),
    }
}

/// Serves the port until the node stops.
pub(super) fn start(inner: &Arc<Inner>, listener: Listener, frame: &Middleware) {
    let routes = frame.wrap(routes(inner));
    let scheme = if listener.is_encrypted() {
        "https"
    } else {
        "http"
    };
    inner.services.addresses.write().push(listener.address());
    inner.addresses.lock().push(ListenAddress {
        name: "realtime",
        url: format!("{scheme}://{}", listener.address()),
    });
    let connections = inner.stop.clone();
    let serving = listener.with_governor(&inner.governor).run(
        inner.stop.clone(),
        inner.tasks.clone(),
        move |stream, peer| name_task(serve(stream, peer, routes.clone(), connections.clone())),
    );
    inner.tasks.spawn(serving);
}

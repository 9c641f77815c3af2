//! The port of the Durable Task SDKs.

use std::sync::Arc;

use steadfast_core::task::name_task;
use steadfast_durabletask::Context;
use steadfast_net::http::{Middleware, serve};
use steadfast_net::listen::{Certificate, Listener, ListenerOptions};

use super::error::Result;
use super::inner::Inner;
use super::listen_address::ListenAddress;
use crate::config::Config;

/// Opens the port, encrypted if there is a certificate.
pub(super) fn bind(config: &Config, certificate: Option<&Arc<Certificate>>) -> Result<Listener> {
    Ok(Listener::bind(ListenerOptions {
        address: config.address(config.durable_port),
        tls: certificate.map(|certificate| certificate.server(&["h2"])),
        connections: config.connections,
    })?)
}

/// The context of the gRPC service. The SDKs cannot send a key, so in development, which
/// is on loopback only, none is required.
pub(super) fn context(inner: &Inner) -> Arc<Context> {
    let access = Arc::clone(&inner.access);
    shared(inner, Some(access).filter(|_| !inner.is_development))
}

/// The context of the REST interface, which always requires a key.
pub(super) fn rest_context(inner: &Inner) -> Arc<Context> {
    shared(inner, Some(Arc::clone(&inner.access)))
}

fn shared(
    inner: &Inner,
    access: Option<Arc<steadfast_net::access::AccessControl>>,
) -> Arc<Context> {
    Arc::new(Context {
        hubs: inner.services.task_hubs.clone(),
        access,
        clock: Arc::clone(&inner.clock),
        leaving: inner.leaving.clone(),
        counts: Arc::clone(&inner.services.work),
    })
}

/// Serves the port until the node stops, so that workers can return results during a drain.
pub(super) fn start(inner: &Arc<Inner>, listener: Listener, frame: &Middleware) {
    let routes =
        steadfast_durabletask::routes(context(inner)).fallback(steadfast_durabletask::no_service);
    let routes = frame.wrap(routes);
    let scheme = if listener.is_encrypted() {
        "https"
    } else {
        "http"
    };
    inner.services.addresses.write().push(listener.address());
    inner.addresses.lock().push(ListenAddress {
        name: "durable",
        url: format!("{scheme}://{}", listener.address()),
    });
    let connections = inner.stop.clone();
    let running = listener.with_governor(&inner.governor).run(
        inner.stop.clone(),
        inner.tasks.clone(),
        move |stream, peer| name_task(serve(stream, peer, routes.clone(), connections.clone())),
    );
    inner.tasks.spawn(running);
}

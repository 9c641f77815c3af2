//! The port of the blob service.

use std::sync::Arc;

use steadfast_core::task::name_task;
use steadfast_eventhubs::blob::{self, Context};
use steadfast_net::http::{Middleware, serve};
use steadfast_net::listen::{Certificate, Listener, ListenerOptions};

use super::error::Result;
use super::inner::Inner;
use super::listen_address::ListenAddress;
use crate::config::Config;

/// Opens the port, with TLS if there is a certificate.
pub(super) fn bind(config: &Config, certificate: Option<&Arc<Certificate>>) -> Result<Listener> {
    Ok(Listener::bind(ListenerOptions {
        address: config.address(config.blob_port),
        tls: certificate.map(|certificate| certificate.server(&["h2", "http/1.1"])),
        connections: config.connections,
    })?)
}

/// Serves the port until the node stops.
pub(super) fn start(inner: &Arc<Inner>, listener: Listener, frame: &Middleware) {
    let is_encrypted = listener.is_encrypted();
    let context = Context::new(
        inner.services.blobs.clone(),
        Arc::clone(&inner.access),
        Arc::clone(&inner.clock),
        is_encrypted,
    );
    let routes = frame.wrap(blob::routes(Arc::new(context)));
    let scheme = if is_encrypted { "https" } else { "http" };
    let address = listener.address();
    inner.services.addresses.write().push(address);
    inner.addresses.lock().push(ListenAddress {
        name: "blob",
        url: format!("{scheme}://{address}"),
    });
    let (stop, connections) = (inner.stop.clone(), inner.stop.clone());
    let running = listener.with_governor(&inner.governor).run(
        stop,
        inner.tasks.clone(),
        move |stream, peer| name_task(serve(stream, peer, routes.clone(), connections.clone())),
    );
    inner.tasks.spawn(running);
}

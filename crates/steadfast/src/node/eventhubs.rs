//! The protocols of the Event Hubs SDKs: AMQP, Blob, publish.
//!
//! Feature `eventhubs`.

use std::sync::Arc;

use steadfast_core::limits;
use steadfast_core::task::name_task;
use steadfast_eventhubs::{amqp, blob, publish};
use steadfast_net::access::AuditClient;
use steadfast_net::http::{Middleware, Routes};
use steadfast_net::listen::Certificate;

use super::client_port::ClientPort;
use super::error::Result;
use super::inner::Inner;
use crate::config::Config;

/// The name of the port of blobs.
const BLOB: &str = "blob";

/// Opens the ports: plain AMQP on loopback or where `tls.allow_plain` is set, AMQP over TLS
/// if there is a certificate, and blobs.
pub(super) fn bind(
    config: &Config,
    certificate: Option<&Arc<Certificate>>,
) -> Result<Vec<ClientPort>> {
    let mut ports = Vec::new();
    if config.listen.is_loopback() || config.allow_plain {
        let port = ClientPort::bind("amqp", config, config.amqp_port, None, &[])?;
        ports.push(port);
    }
    if certificate.is_some() {
        let port = ClientPort::bind("amqps", config, config.amqps_port, certificate, &[])?;
        ports.push(port);
    }
    let protocols = ["h2", "http/1.1"];
    let port = ClientPort::bind(BLOB, config, config.blob_port, certificate, &protocols)?;
    ports.push(port);
    Ok(ports)
}

/// Adds AMQP over WebSockets and the publication of events to the routes of the HTTP port.
pub(super) fn routes(inner: &Arc<Inner>, routes: Routes) -> Routes {
    let context = context(inner);
    routes
        .merge(amqp::routes(Arc::clone(&context), inner.leaving.clone()))
        .merge(publish::routes(context))
}

/// Serves the ports. Those of AMQP end when the node drains: clients then reconnect to
/// another node.
pub(super) fn start(inner: &Arc<Inner>, ports: Vec<ClientPort>, frame: &Middleware) {
    for port in ports {
        if port.name() == BLOB {
            let context = blob::Context::new(
                inner.services.blobs.clone(),
                Arc::clone(&inner.access),
                Arc::clone(&inner.clock),
                port.is_encrypted(),
            );
            let routes = frame.wrap(blob::routes(Arc::new(context)));
            port.serve_http(inner, routes);
            continue;
        }
        let (scheme, leaving) = (port.name(), inner.leaving.clone());
        let (context, connections) = (context(inner), inner.leaving.clone());
        port.serve(inner, scheme, leaving, move |stream, peer| {
            let serving = amqp::serve(stream, Arc::clone(&context), connections.clone());
            name_task(AuditClient::at(peer.ip().to_canonical()).scope(serving))
        });
    }
}

/// The context of AMQP connections.
fn context(inner: &Inner) -> Arc<amqp::Context> {
    Arc::new(amqp::Context {
        hubs: inner.services.hubs.clone(),
        access: Some(Arc::clone(&inner.access)),
        clock: Arc::clone(&inner.session_clock),
        container: inner.config.name.clone(),
        idle: limits::AMQP_IDLE,
        served: inner.services.served.clone(),
    })
}

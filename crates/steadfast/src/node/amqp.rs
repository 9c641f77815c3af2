//! The AMQP ports of event hubs, plain and TLS.

use std::sync::Arc;

use steadfast_core::limits;
use steadfast_core::task::name_task;
use steadfast_eventhubs::amqp::{self, Context};
use steadfast_net::access::AuditClient;
use steadfast_net::listen::{Certificate, Listener, ListenerOptions};

use super::error::Result;
use super::inner::Inner;
use super::listen_address::ListenAddress;
use crate::config::Config;

/// Opens the ports: plain AMQP on loopback or where `tls.allow_plain` is set, and AMQP
/// over TLS if there is a certificate.
pub(super) fn bind(
    config: &Config,
    certificate: Option<&Arc<Certificate>>,
) -> Result<Vec<Listener>> {
    let mut ports = Vec::new();
    if config.listen.is_loopback() || config.allow_plain {
        ports.push(Listener::bind(ListenerOptions {
            address: config.address(config.amqp_port),
            tls: None,
            connections: config.connections,
        })?);
    }
    if let Some(certificate) = certificate {
        ports.push(Listener::bind(ListenerOptions {
            address: config.address(config.amqps_port),
            tls: Some(certificate.server(&[])),
            connections: config.connections,
        })?);
    }
    Ok(ports)
}

/// The context that all connections share.
pub(super) fn context(inner: &Inner) -> Arc<Context> {
    Arc::new(Context {
        hubs: inner.services.hubs.clone(),
        access: Some(Arc::clone(&inner.access)),
        clock: Arc::clone(&inner.clock),
        container: inner.config.name.clone(),
        idle: limits::AMQP_IDLE,
        served: inner.services.served.clone(),
    })
}

/// Serves the ports until the node drains; clients then reconnect to another node.
pub(super) fn start(inner: &Arc<Inner>, ports: Vec<Listener>, context: &Arc<Context>) {
    for listener in ports {
        let name = if listener.is_encrypted() {
            "amqps"
        } else {
            "amqp"
        };
        let address = listener.address();
        inner.services.addresses.write().push(address);
        inner.addresses.lock().push(ListenAddress {
            name,
            url: format!("{name}://{address}"),
        });
        let (context, connections) = (Arc::clone(context), inner.leaving.clone());
        let running = listener.with_governor(&inner.governor).run(
            inner.leaving.clone(),
            inner.tasks.clone(),
            move |stream, peer| {
                let serving = amqp::serve(stream, Arc::clone(&context), connections.clone());
                name_task(AuditClient::at(peer.ip().to_canonical()).scope(serving))
            },
        );
        inner.tasks.spawn(running);
    }
}

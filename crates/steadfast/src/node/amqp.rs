//! The AMQP ports of event hubs, plain and TLS.

use std::sync::Arc;

use steadfast_core::limits;
use steadfast_core::task::named;
use steadfast_protocols::access::Asker;
use steadfast_protocols::amqp::{self, Context};
use steadfast_protocols::listen::{Bind, Certificate, Listener};

use super::address::Address;
use super::error::Result;
use super::inner::Inner;
use crate::config::Config;

/// Opens the ports: plain AMQP on loopback or where `tls.allow_plain` is set, and AMQP
/// over TLS if there is a certificate.
pub(super) fn bind(
    config: &Config,
    certificate: Option<&Arc<Certificate>>,
) -> Result<Vec<Listener>> {
    let mut ports = Vec::new();
    if config.listen.is_loopback() || config.allow_plain {
        ports.push(Listener::bind(Bind {
            address: config.address(config.amqp_port),
            tls: None,
            connections: config.connections,
        })?);
    }
    if let Some(certificate) = certificate {
        ports.push(Listener::bind(Bind {
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
        hubs: inner.own.hubs.clone(),
        access: Some(Arc::clone(&inner.access)),
        clock: Arc::clone(&inner.clock),
        container: inner.config.name.clone(),
        idle: limits::AMQP_IDLE,
        served: inner.own.served.clone(),
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
        inner.own.addresses.write().push(address);
        inner.addresses.lock().push(Address {
            name,
            url: format!("{name}://{address}"),
        });
        let (context, connections) = (Arc::clone(context), inner.leaving.clone());
        let running = listener.governed(&inner.governor).run(
            inner.leaving.clone(),
            inner.tasks.clone(),
            move |stream, peer| {
                let serving = amqp::serve(stream, Arc::clone(&context), connections.clone());
                named(Asker::at(peer.ip().to_canonical()).scope(serving))
            },
        );
        inner.tasks.spawn(running);
    }
}

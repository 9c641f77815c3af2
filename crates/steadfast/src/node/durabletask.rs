//! The protocols of the Durable Task SDKs: gRPC and HTTP.
//!
//! Feature `durabletask`.

use std::sync::Arc;

use steadfast_durabletask::{Context, no_service, rest};
use steadfast_net::access::AccessControl;
use steadfast_net::http::{Middleware, Routes};
use steadfast_net::listen::Certificate;

use super::client_port::ClientPort;
use super::error::Result;
use super::inner::Inner;
use crate::config::Config;

/// Opens the port of gRPC.
pub(super) fn bind(
    config: &Config,
    certificate: Option<&Arc<Certificate>>,
) -> Result<Vec<ClientPort>> {
    let port = config.durable_port;
    let port = ClientPort::bind("durable", config, port, certificate, &["h2"])?;
    Ok(vec![port])
}

/// Adds gRPC and the HTTP interface to the routes of the HTTP port.
pub(super) fn routes(inner: &Arc<Inner>, scheme: &'static str, routes: Routes) -> Routes {
    // The HTTP interface always requires a key.
    let rest = shared(inner, Some(Arc::clone(&inner.access)));
    routes
        .merge(steadfast_durabletask::routes(context(inner)))
        .merge(rest::routes(rest, scheme))
}

/// Serves the port until the node stops, so that workers can return results during a drain.
pub(super) fn start(inner: &Arc<Inner>, ports: Vec<ClientPort>, frame: &Middleware) {
    for port in ports {
        let routes = steadfast_durabletask::routes(context(inner)).fallback(no_service);
        port.serve_http(inner, frame.wrap(routes));
    }
}

/// The context of the gRPC service. The SDKs cannot send a key, so in development, which
/// is on loopback only, none is required.
fn context(inner: &Inner) -> Arc<Context> {
    let access = Arc::clone(&inner.access);
    shared(inner, Some(access).filter(|_| !inner.is_development))
}

fn shared(inner: &Inner, access: Option<Arc<AccessControl>>) -> Arc<Context> {
    Arc::new(Context {
        hubs: inner.services.task_hubs.clone(),
        access,
        clock: Arc::clone(&inner.clock),
        leaving: inner.leaving.clone(),
        counts: Arc::clone(&inner.services.work),
    })
}

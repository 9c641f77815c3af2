//! SignalR: the port and routes of clients and app servers.
//!
//! Feature `signalr`.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_net::access::AccessControl;
use steadfast_net::egress::ConnectOptions;
use steadfast_net::http::{BodyBudget, Middleware, Routes};
use steadfast_net::listen::Certificate;
use steadfast_partition::Result as PartitionResult;
use steadfast_partition::cluster::{Cluster, NodeMessageHandler};
use steadfast_signalr::{Context, REQUESTS, Upstreams, answer};

use super::client_port::ClientPort;
use super::error::Result;
use super::hubs::RealtimeHubs;
use super::inner::Inner;
use crate::config::{Config, Error as ConfigError, upstream};

/// Opens the port.
pub(super) fn bind(
    config: &Config,
    certificate: Option<&Arc<Certificate>>,
) -> Result<Vec<ClientPort>> {
    let (port, protocols) = (config.realtime_port, ["h2", "http/1.1"]);
    let port = ClientPort::bind("realtime", config, port, certificate, &protocols)?;
    Ok(vec![port])
}

/// Sets how clients of hubs without an app server are handled.
pub(super) fn set_mode(
    hosted: &RealtimeHubs,
    config: &Config,
    connect: &ConnectOptions,
    access: &Arc<AccessControl>,
) -> Result<()> {
    let rules = config.upstreams.iter().map(upstream::rule);
    let upstreams = Upstreams::new(rules.collect(), connect.clone(), Arc::clone(access));
    let wrong = |why: String| ConfigError::value("upstream", "the configuration", why);
    let upstreams = Arc::new(upstreams.map_err(wrong)?);
    hosted.realtime.set_mode(config.realtime_mode, upstreams);
    Ok(())
}

/// Adds the routes of clients, which are the same on every port.
pub(super) fn routes(inner: &Arc<Inner>, routes: Routes) -> Routes {
    // Clients of hubs are the least trusted ones: they use no body budget of other clients.
    let own = steadfast_signalr::routes(&Arc::new(context(inner)), inner.hosted.paths());
    routes.merge(BodyBudget::new().wrap(own))
}

/// Serves the port until the node stops.
pub(super) fn start(inner: &Arc<Inner>, ports: Vec<ClientPort>, frame: &Middleware) {
    for port in ports {
        let routes = frame.wrap(routes(inner, Routes::new()));
        port.serve_http(inner, routes);
    }
}

/// Handles requests of clients of this node that arrive at another one.
pub(super) fn connect(cluster: &Cluster, inner: &Inner) {
    let handler = RemotePollHandler(context(inner));
    cluster.register_handler(REQUESTS, Arc::new(handler));
}

/// The context that all requests of clients share.
fn context(inner: &Inner) -> Context {
    Context {
        realtime: inner.hosted.realtime.clone(),
        access: Arc::clone(&inner.access),
        clock: Arc::clone(&inner.session_clock),
    }
}

/// Handles requests of this node's clients that arrived at another node.
struct RemotePollHandler(Context);

#[async_trait]
impl NodeMessageHandler for RemotePollHandler {
    async fn handle(&self, message: Bytes) -> PartitionResult<Bytes> {
        Ok(answer(&self.0, message).await)
    }
}

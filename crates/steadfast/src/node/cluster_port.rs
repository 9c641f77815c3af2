//! The port of other nodes and regions.
//!
//! Feature `cluster`.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_cluster_rpc::{ClusterClient, Credentials, PeerHandler, serve};
use steadfast_core::limits;
use steadfast_net::access::Secret;
use steadfast_net::listen::{Certificate, Listener, ListenerOptions};
use steadfast_partition::cluster::{Cluster, ClusterNetwork, NodeIdentity};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::error::Result;
use super::listen_policy;
use crate::config::{Config, EngineKind, Error as ConfigError};

/// The port before its use is known: for nodes of a cluster, or for other regions.
pub(super) type NodeListener = Listener;

/// Whether this node communicates with other nodes or regions.
pub(super) fn is_wanted(config: &Config) -> bool {
    let has_others = config.engine == EngineKind::Postgres || config.regions.role.is_some();
    has_others && config.cluster_key.is_some()
}

/// Opens the port, if the node has others.
pub(super) fn bind(
    config: &Config,
    certificate: Option<&Arc<Certificate>>,
) -> Result<Option<NodeListener>> {
    if !is_wanted(config) {
        return Ok(None);
    }
    listen_policy::check_nodes(config)?;
    let listener = Listener::bind(ListenerOptions {
        address: config.address(config.cluster_port),
        tls: certificate.map(|certificate| certificate.server(&["h2"])),
        connections: limits::NODES * 4,
    })?;
    Ok(Some(listener))
}

/// The port of the nodes of a cluster, and what this node proves to them.
pub(super) struct ClusterPort {
    listener: NodeListener,
    credentials: Credentials,
}

impl ClusterPort {
    /// The port of this cluster, in these versions of protocol and schema.
    pub(super) fn new(
        config: &Config,
        listener: NodeListener,
        cluster: &str,
        (protocol, schema): (u32, u32),
    ) -> Result<Self> {
        let address = advertised(config.cluster_advertise.as_deref(), listener.address())?;
        let secret = Secret::new(config.cluster_key.as_deref().unwrap_or_default());
        let mut credentials = Credentials::new(&config.name, &address, cluster, &secret);
        credentials.identity.protocol = protocol;
        credentials.identity.schema = schema;
        Ok(Self {
            listener,
            credentials,
        })
    }

    pub(super) fn identity(&self) -> &NodeIdentity {
        &self.credentials.identity
    }

    pub(super) fn set_incarnation(&mut self, incarnation: u128) {
        self.credentials.incarnation = incarnation;
    }

    /// Connections of their own to the other nodes.
    pub(super) fn network(&self) -> Arc<dyn ClusterNetwork> {
        let is_encrypted = self.listener.is_encrypted();
        Arc::new(ClusterClient::new(self.credentials.clone(), is_encrypted))
    }

    /// Serves other nodes until the node stops.
    pub(super) fn serve(
        self,
        cluster: &Arc<Cluster>,
        certificate: Option<Arc<Certificate>>,
        stop: &CancellationToken,
        tasks: &TaskTracker,
    ) {
        let host = Arc::new(ClusterRequestHandler(Arc::clone(cluster)));
        let certificate = certificate.filter(|_| self.listener.is_encrypted());
        let serving = serve(self.credentials, certificate, host, stop.clone());
        tasks.spawn(self.listener.run(stop.clone(), tasks.clone(), serving));
    }
}

/// The address under which other nodes reach this one.
fn advertised(said: Option<&str>, listens: SocketAddr) -> std::result::Result<String, ConfigError> {
    let port = listens.port();
    match said {
        Some(address) if address.contains(':') && !address.ends_with(']') => Ok(address.to_owned()),
        Some(host) => Ok(format!("{host}:{port}")),
        None if listens.ip().is_unspecified() => Err(ConfigError::value(
            "cluster.advertise",
            "nothing",
            format!("others cannot reach a node at {listens}; say under which host they do"),
        )),
        None => Ok(listens.to_string()),
    }
}

/// Handles requests of other nodes.
struct ClusterRequestHandler(Arc<Cluster>);

#[async_trait]
impl PeerHandler for ClusterRequestHandler {
    async fn answer(&self, _: &str, request: Bytes) -> Bytes {
        self.0.answer(request).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_says_where_others_reach_it() {
        let at = |address: &str| address.parse().unwrap();
        let own = at("10.0.0.1:7071");
        let any = at("0.0.0.0:7071");
        for (said, listens, expected) in [
            (None, own, "10.0.0.1:7071"),
            (Some("node-a"), any, "node-a:7071"),
            (Some("node-a:9000"), any, "node-a:9000"),
            (Some("[fd00::1]"), any, "[fd00::1]:7071"),
            (Some("[fd00::1]:9000"), own, "[fd00::1]:9000"),
        ] {
            assert_eq!(advertised(said, listens).unwrap(), expected);
        }
        for listens in [any, at("[::]:7071")] {
            let refused = advertised(None, listens).unwrap_err().to_string();
            assert!(refused.contains("cluster.advertise"), "{refused}");
        }
    }
}

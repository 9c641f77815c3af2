//! Cluster membership of this node, on PostgreSQL only.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_cluster_rpc::{ClusterClient, Credentials, PeerHandler, serve};
use steadfast_core::clock::{Clock, SleeplessClock};
use steadfast_core::id::Owner;
use steadfast_core::limits;
use steadfast_net::access::Secret;
use steadfast_net::listen::{Certificate, Listener, ListenerOptions};
use steadfast_partition::cluster::{
    Cluster, ClusterNetwork, ClusterPeer, ClusterSetup, Forwarder, JoinError, Members,
    NetworkError, NodeIdentity, PROTOCOL, SCHEMA, join as join_cluster,
};
use steadfast_partition::{Router, Runtime};
use steadfast_storage::{Engine, NodeLease, Store};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::error::{Error, Result};
use super::listen_policy;
use crate::config::{Config, EngineKind as Choice, Error as ConfigError};

/// The number of the space whose partitions the cluster assigns.
const SPACE: u16 = 0;

/// Whether this node communicates with other nodes or regions.
pub(super) fn is_wanted(config: &Config) -> bool {
    let has_others = config.engine == Choice::Postgres || config.regions.role.is_some();
    has_others && config.cluster_key.is_some()
}

/// Opens the cluster port, if the node has a cluster.
pub(super) fn bind(
    config: &Config,
    certificate: Option<&Arc<Certificate>>,
) -> Result<Option<Listener>> {
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

/// The cluster membership of this node before it has a store.
pub(super) struct JoinedCluster {
    setup: ClusterSetup,
    pub(super) owner: Owner,
    pub(super) lease: NodeLease,
    pub(super) forward: Arc<Forwarder>,
    /// The cluster port and its credentials, unless the node is alone.
    listener: Option<(Listener, Credentials)>,
}

/// Joins the cluster of an engine.
pub(super) async fn join(
    config: &Config,
    (protocol, schema): (u32, u32),
    engine: &Arc<dyn Engine>,
    cluster: &str,
    listener: Option<Listener>,
) -> Result<JoinedCluster> {
    let clock = &lease_clock();
    let roster = Arc::new(Members::new(Arc::clone(clock), config.cluster_lease, SPACE));
    let door = listener
        .zip(config.cluster_key.as_ref())
        .map(|(listener, key)| {
            let address = advertised(config.cluster_advertise.as_deref(), listener.address())?;
            let secret = Secret::new(key);
            let mut credentials = Credentials::new(&config.name, &address, cluster, &secret);
            credentials.identity.protocol = protocol;
            credentials.identity.schema = schema;
            Ok::<_, ConfigError>((listener, credentials))
        })
        .transpose()?;
    let identity = match &door {
        Some((_, credentials)) => credentials.identity.clone(),
        None => alone(config, cluster),
    };
    let mut setup = ClusterSetup {
        identity,
        lease: config.cluster_lease,
        clock: Arc::clone(clock),
        engine: Arc::clone(engine),
        members: Arc::clone(&roster),
        network: Arc::new(UnconnectedNetwork),
        probing: Arc::new(UnconnectedNetwork),
    };
    let owner = join_cluster(&setup).await.map_err(|error| match error {
        JoinError::Refused(refused) => Error::Cluster(refused),
        JoinError::Storage(error) => Error::Storage(error),
    })?;
    let door = door.map(|(listener, mut credentials)| {
        credentials.incarnation = owner.incarnation;
        let wire = || {
            Arc::new(ClusterClient::new(
                credentials.clone(),
                listener.is_encrypted(),
            ))
        };
        (setup.network, setup.probing) = (wire(), wire());
        (listener, credentials)
    });
    let forward = Forwarder::new(owner, roster, Arc::clone(&setup.network));
    Ok(JoinedCluster {
        setup,
        owner,
        lease: NodeLease::new(Arc::clone(clock)),
        forward: Arc::new(forward),
        listener: door,
    })
}

/// The clock of leases. It also counts the time for which this machine is suspended, as
/// the clocks of other nodes do.
fn lease_clock() -> Arc<dyn Clock> {
    Arc::new(SleeplessClock::default())
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

fn alone(config: &Config, cluster: &str) -> NodeIdentity {
    NodeIdentity {
        name: config.name.clone(),
        address: String::new(),
        cluster: cluster.to_owned(),
        fingerprint: [0; 16],
        protocol: PROTOCOL,
        schema: SCHEMA,
    }
}

impl JoinedCluster {
    /// Serves other nodes and acquires a share of the partitions. Waits until every partition
    /// has an owner.
    pub(super) async fn start(
        self,
        runtime: &Arc<Runtime>,
        store: &Arc<Store>,
        certificate: Option<Arc<Certificate>>,
        stop: &CancellationToken,
        tasks: &TaskTracker,
    ) -> Result<Arc<Cluster>> {
        let router: &Arc<Router> = runtime.router();
        self.forward.join(router);
        let limit = limits::FORWARD_TIME + self.setup.lease * 2;
        let cluster = Cluster::start(self.setup, runtime, Arc::clone(store), self.lease).await?;
        let cluster = Arc::new(cluster);
        if let Some((listener, credentials)) = self.listener {
            let host = Arc::new(ClusterRequestHandler(Arc::clone(&cluster)));
            let certificate = certificate.filter(|_| listener.is_encrypted());
            let serving = serve(credentials, certificate, host, stop.clone());
            tasks.spawn(listener.run(stop.clone(), tasks.clone(), serving));
        }
        if !cluster.settled(limit).await {
            tracing::warn!(event = "cluster.unsettled", idle = ?cluster.status().idle);
        }
        Ok(cluster)
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

/// The network of a node without a cluster key.
struct UnconnectedNetwork;

#[async_trait]
impl ClusterNetwork for UnconnectedNetwork {
    async fn send(
        &self,
        _: &ClusterPeer,
        _: Bytes,
        _: Duration,
    ) -> std::result::Result<Bytes, NetworkError> {
        Err(NetworkError::Unsent("there is no cluster key".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_end_by_a_clock_that_counts_sleep() {
        let difference = lease_clock()
            .monotonic()
            .abs_diff(SleeplessClock::default().monotonic());
        assert!(difference < Duration::from_secs(1), "{difference:?}");
    }

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

//! Cluster membership of this node, on PostgreSQL only.
//!
//! A node without a cluster port is a member too, alone.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::clock::{Clock, SleeplessClock};
use steadfast_core::id::Owner;
use steadfast_core::limits;
use steadfast_net::listen::Certificate;
use steadfast_partition::cluster::{
    Cluster, ClusterNetwork, ClusterPeer, ClusterSetup, Forwarder, JoinError, Members,
    NetworkError, NodeIdentity, PROTOCOL, SCHEMA, join as join_cluster,
};
use steadfast_partition::{Router, Runtime};
use steadfast_storage::{Engine, NodeLease, Store};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::cluster_port::{ClusterPort, NodeListener};
use super::error::{Error, Result};
use crate::config::Config;

/// The number of the space whose partitions the cluster assigns.
const SPACE: u16 = 0;

/// The cluster membership of this node before it has a store.
pub(super) struct JoinedCluster {
    setup: ClusterSetup,
    pub(super) owner: Owner,
    pub(super) lease: NodeLease,
    pub(super) forward: Arc<Forwarder>,
    /// The cluster port, unless the node is alone.
    port: Option<ClusterPort>,
}

/// Joins the cluster of an engine.
pub(super) async fn join(
    config: &Config,
    (protocol, schema): (u32, u32),
    engine: &Arc<dyn Engine>,
    cluster: &str,
    listener: Option<NodeListener>,
) -> Result<JoinedCluster> {
    let clock = &lease_clock();
    let roster = Arc::new(Members::new(Arc::clone(clock), config.cluster_lease, SPACE));
    let open = |listener| ClusterPort::new(config, listener, cluster, (protocol, schema));
    let mut port = listener.map(open).transpose()?;
    let identity = match &port {
        Some(port) => port.identity().clone(),
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
    if let Some(port) = &mut port {
        port.set_incarnation(owner.incarnation);
        (setup.network, setup.probing) = (port.network(), port.network());
    }
    let forward = Forwarder::new(owner, roster, Arc::clone(&setup.network));
    Ok(JoinedCluster {
        setup,
        owner,
        lease: NodeLease::new(Arc::clone(clock)),
        forward: Arc::new(forward),
        port,
    })
}

/// The clock of leases. It also counts the time for which this machine is suspended, as
/// the clocks of other nodes do.
fn lease_clock() -> Arc<dyn Clock> {
    Arc::new(SleeplessClock::default())
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
        if let Some(port) = self.port {
            port.serve(&cluster, certificate, stop, tasks);
        }
        if !cluster.settled(limit).await {
            tracing::warn!(event = "cluster.unsettled", idle = ?cluster.status().idle);
        }
        Ok(cluster)
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
}

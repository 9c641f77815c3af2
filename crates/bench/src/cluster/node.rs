//! Nodes that share the partitions of one database.
//!
//! They run in one process and communicate over loopback, as nodes of different
//! machines do over a network.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use bytes::Bytes;
use steadfast_cluster_rpc::{ClusterClient, Credentials, PeerHandler, serve};
use steadfast_core::clock::{Clock, SystemClock};
use steadfast_core::id::Partition;
use steadfast_events::EventHubs;
use steadfast_net::access::Secret;
use steadfast_net::listen::{Listener, ListenerOptions};
use steadfast_partition::cluster::{
    Cluster, ClusterNetwork, ClusterPeer, ClusterSetup, Forwarder, Members, NetworkError, join,
};
use steadfast_partition::volatile::{ReplicaPeers, VolatileSpace};
use steadfast_partition::{
    Handle, NodeTransport, NoopPerformer, Options, Router, Runtime, Services, Space,
};
use steadfast_storage::{NodeLease, Options as StoreOptions, Store};
use steadfast_storage_postgres::shards::ShardedEngine;
use steadfast_storage_replicated::replicated_memory::{
    ReplicatedMemory, ReplicationSetup as Copying,
};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::load::RowService;
use super::settings::{NODES, PARTITIONS, Settings};

const LEASE: Duration = Duration::from_secs(10);
const KEY: &str = "the key of a cluster that only this run knows";

/// The time-out for the assignment of all partitions.
const PATIENCE: Duration = Duration::from_secs(60);

/// One node.
pub(super) struct BenchClusterNode {
    pub(super) runtime: Arc<Runtime>,
    pub(super) engine: Arc<ShardedEngine>,
    pub(super) hubs: EventHubs,
    pub(super) volatile: VolatileSpace,
    cluster: Arc<Cluster>,
    stop: CancellationToken,
}

impl BenchClusterNode {
    /// Starts all nodes of a run and waits until each serves its share of the
    /// partitions.
    pub(super) async fn start_all(settings: &Settings) -> Result<Vec<Self>> {
        let mut nodes = Vec::new();
        for name in ["a", "b", "c"].iter().take(NODES) {
            nodes.push(Box::pin(Self::start(settings, name)).await?);
        }
        let share = usize::from(PARTITIONS) / NODES;
        for node in &nodes {
            let mut changes = node.runtime.changes();
            let shared = async {
                while node.runtime.serving().len() != share {
                    changes.changed().await?;
                }
                anyhow::Ok(())
            };
            tokio::time::timeout(PATIENCE, shared).await??;
        }
        Ok(nodes)
    }

    async fn start(settings: &Settings, name: &str) -> Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let engine = Arc::new(ShardedEngine::open(&settings.database.options()).await?);
        let listener = Listener::bind(ListenerOptions {
            address: ([127, 0, 0, 1], 0).into(),
            tls: None,
            connections: 64,
        })?;
        let address = listener.address().to_string();
        let secret = Secret::new(KEY);
        let mut credentials = Credentials::new(name, &address, engine.cluster(), &secret);
        let roster = Arc::new(Members::new(Arc::clone(&clock), LEASE, 0));
        let mut setup = ClusterSetup {
            identity: credentials.identity.clone(),
            lease: LEASE,
            clock: Arc::clone(&clock),
            engine: Arc::clone(&engine) as _,
            members: Arc::clone(&roster),
            network: Arc::new(NoNetwork),
            probing: Arc::new(NoNetwork),
        };
        let owner = join(&setup)
            .await
            .map_err(|error| anyhow::anyhow!("{error:?}"))?;
        credentials.incarnation = owner.incarnation;
        let wire = || Arc::new(ClusterClient::new(credentials.clone(), false));
        (setup.network, setup.probing) = (wire(), wire());
        let forward = Arc::new(Forwarder::new(owner, roster, Arc::clone(&setup.network)));
        let lease = NodeLease::new(Arc::clone(&clock));
        let mut options = StoreOptions::new(owner);
        options.lease = Some(lease.clone());
        let beside = options.clone();
        let store = Arc::new(Store::start(Arc::clone(&engine) as _, options));
        let runtime = runtime(&engine, &store, &forward, &clock).await?;
        forward.join(runtime.router());
        let cluster = Cluster::start(setup, &runtime, store, lease.clone()).await?;
        let cluster = Arc::new(cluster);
        let volatile = volatile(&engine, &runtime, &cluster, lease, beside);
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let host = Arc::new(BenchNodeHandler(Arc::clone(&cluster)));
        let serving = serve(credentials, None, host, stop.clone());
        tasks.spawn(listener.run(stop.clone(), tasks.clone(), serving));
        Ok(Self {
            hubs: EventHubs::new(&runtime),
            runtime,
            volatile,
            engine,
            cluster,
            stop,
        })
    }

    pub(super) fn handle(&self) -> Handle<RowService> {
        self.runtime.handle()
    }

    /// The partitions that it serves.
    pub(super) fn serving(&self) -> Vec<Partition> {
        self.runtime.serving()
    }

    /// Commands that each of its partitions has handled.
    pub(super) fn commands(&self) -> Vec<(Partition, u64)> {
        let doors = self.runtime.router().mailboxes();
        let count = |door: &steadfast_partition::Mailbox| {
            (door.partition(), door.metrics().counts().commands)
        };
        doors.iter().map(count).collect()
    }

    /// Leaves the cluster.
    pub(super) async fn end(self) {
        self.cluster.finish_leaving().await;
        self.stop.cancel();
    }
}

async fn runtime(
    engine: &Arc<ShardedEngine>,
    store: &Arc<Store>,
    forward: &Arc<Forwarder>,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<Runtime>> {
    let wanted = Space {
        number: 0,
        name: "main".into(),
        partitions: PARTITIONS,
        incarnation: u128::from(fastrand::u64(..)),
    };
    let space = Space::open(&**engine, wanted).await?;
    let beyond = Arc::clone(forward) as Arc<dyn NodeTransport>;
    let options = Options {
        services: steadfast_events::register(Services::new().with(RowService)),
        performer: Arc::new(NoopPerformer),
        router: Arc::new(Router::new(beyond)),
        clock: Arc::clone(clock),
    };
    Ok(Arc::new(Runtime::new(Arc::clone(store), space, options)))
}

/// The volatile space of a node, replicated to the others.
fn volatile(
    engine: &Arc<ShardedEngine>,
    runtime: &Arc<Runtime>,
    cluster: &Arc<Cluster>,
    lease: NodeLease,
    options: StoreOptions,
) -> VolatileSpace {
    let router = Arc::clone(runtime.router());
    let fellows = ReplicaPeers::new(router, runtime.space().number, lease.clone());
    let fellows = Arc::new(fellows);
    let copies = Arc::new(ReplicatedMemory::new(Copying {
        me: cluster.owner(),
        durable: Arc::clone(engine) as _,
        peers: Arc::clone(&fellows) as _,
        clock: Arc::clone(&options.clock),
        lease: Some(lease),
    }));
    let store = Arc::new(Store::start(Arc::clone(&copies) as _, options));
    cluster.add_store(Arc::clone(&store));
    fellows.join(cluster, &copies);
    VolatileSpace::start(runtime, store, Some(copies))
}

/// Handles requests of other nodes.
struct BenchNodeHandler(Arc<Cluster>);

#[async_trait]
impl PeerHandler for BenchNodeHandler {
    async fn answer(&self, _: &str, request: Bytes) -> Bytes {
        self.0.answer(request).await
    }
}

/// The network of a node that has not joined its cluster yet.
struct NoNetwork;

#[async_trait]
impl ClusterNetwork for NoNetwork {
    async fn send(
        &self,
        _: &ClusterPeer,
        _: Bytes,
        _: Duration,
    ) -> std::result::Result<Bytes, NetworkError> {
        Err(NetworkError::Unsent(
            "no other node is known yet".to_owned(),
        ))
    }
}

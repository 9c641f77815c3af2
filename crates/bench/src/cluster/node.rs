//! Nodes that share the partitions of one database.
//!
//! They are in one process, and talk over loopback as nodes of different machines do.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::clock::{Clock, SystemClock};
use steadfast_core::id::Partition;
use steadfast_events::EventHubs;
use steadfast_partition::cluster::{Broken, Cluster, Forward, Network, Peer, Roster, Setup, join};
use steadfast_partition::volatile::{Fellows, Volatile};
use steadfast_partition::{Handle, Idle, Options, Router, Runtime, Services, Space, Transport};
use steadfast_protocols::access::Secret;
use steadfast_protocols::cluster::{Answer, Credentials, Wire, serve};
use steadfast_protocols::listen::{Bind, Listener};
use steadfast_storage::copies::{Copies, Setup as Copying};
use steadfast_storage::shards::Shards;
use steadfast_storage::{Lease, Options as StoreOptions, Store};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::load::Load;
use super::settings::{NODES, PARTITIONS, Settings};

const LEASE: Duration = Duration::from_secs(10);
const KEY: &str = "the key of a cluster that only this run knows";

/// How long sharing out may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// One node.
pub(super) struct Node {
    pub(super) runtime: Arc<Runtime>,
    pub(super) engine: Arc<Shards>,
    pub(super) hubs: EventHubs,
    pub(super) volatile: Volatile,
    cluster: Arc<Cluster>,
    stop: CancellationToken,
}

impl Node {
    /// All nodes of a run, with their shares.
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
        let engine = Arc::new(Shards::open(&settings.database.options()).await?);
        let listener = Listener::bind(Bind {
            address: ([127, 0, 0, 1], 0).into(),
            tls: None,
            connections: 64,
        })?;
        let address = listener.address().to_string();
        let secret = Secret::new(KEY);
        let mut credentials = Credentials::new(name, &address, engine.cluster(), &secret);
        let roster = Arc::new(Roster::new(Arc::clone(&clock), LEASE, 0));
        let mut setup = Setup {
            identity: credentials.identity.clone(),
            lease: LEASE,
            clock: Arc::clone(&clock),
            engine: Arc::clone(&engine) as _,
            roster: Arc::clone(&roster),
            network: Arc::new(Nowhere),
            probing: Arc::new(Nowhere),
        };
        let owner = join(&setup)
            .await
            .map_err(|error| anyhow::anyhow!("{error:?}"))?;
        credentials.incarnation = owner.incarnation;
        let wire = || Arc::new(Wire::new(credentials.clone(), false));
        (setup.network, setup.probing) = (wire(), wire());
        let forward = Arc::new(Forward::new(owner, roster, Arc::clone(&setup.network)));
        let lease = Lease::new(Arc::clone(&clock));
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
        let host = Arc::new(Host(Arc::clone(&cluster)));
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

    pub(super) fn handle(&self) -> Handle<Load> {
        self.runtime.handle()
    }

    /// The partitions that it serves.
    pub(super) fn serving(&self) -> Vec<Partition> {
        self.runtime.serving()
    }

    /// Commands that each of its partitions has handled.
    pub(super) fn commands(&self) -> Vec<(Partition, u64)> {
        let doors = self.runtime.router().doors();
        let count =
            |door: &steadfast_partition::Door| (door.partition(), door.metrics().counts().commands);
        doors.iter().map(count).collect()
    }

    /// Takes no more part.
    pub(super) async fn end(self) {
        self.cluster.gone().await;
        self.stop.cancel();
    }
}

async fn runtime(
    engine: &Arc<Shards>,
    store: &Arc<Store>,
    forward: &Arc<Forward>,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<Runtime>> {
    let wanted = Space {
        number: 0,
        name: "main".into(),
        partitions: PARTITIONS,
        incarnation: u128::from(fastrand::u64(..)),
    };
    let space = Space::open(&**engine, wanted).await?;
    let beyond = Arc::clone(forward) as Arc<dyn Transport>;
    let options = Options {
        services: steadfast_events::register(Services::new().with(Load)),
        performer: Arc::new(Idle),
        router: Arc::new(Router::new(beyond)),
        clock: Arc::clone(clock),
    };
    Ok(Arc::new(Runtime::new(Arc::clone(store), space, options)))
}

/// The volatile space of a node, copied to the others.
fn volatile(
    engine: &Arc<Shards>,
    runtime: &Arc<Runtime>,
    cluster: &Arc<Cluster>,
    lease: Lease,
    options: StoreOptions,
) -> Volatile {
    let router = Arc::clone(runtime.router());
    let fellows = Fellows::new(router, runtime.space().number, lease.clone());
    let fellows = Arc::new(fellows);
    let copies = Arc::new(Copies::new(Copying {
        me: cluster.owner(),
        durable: Arc::clone(engine) as _,
        peers: Arc::clone(&fellows) as _,
        clock: Arc::clone(&options.clock),
        lease: Some(lease),
    }));
    let store = Arc::new(Store::start(Arc::clone(&copies) as _, options));
    cluster.lapse_with(Arc::clone(&store));
    fellows.join(cluster, &copies);
    Volatile::start(runtime, store, Some(copies))
}

/// Answers other nodes.
struct Host(Arc<Cluster>);

#[async_trait]
impl Answer for Host {
    async fn answer(&self, _: &str, request: Bytes) -> Bytes {
        self.0.answer(request).await
    }
}

/// There is no way to other nodes yet.
struct Nowhere;

#[async_trait]
impl Network for Nowhere {
    async fn send(&self, _: &Peer, _: Bytes, _: Duration) -> std::result::Result<Bytes, Broken> {
        Err(Broken::Unsent("no other node is known yet".to_owned()))
    }
}

//! A node whose lease ends is silent before others follow.
#![expect(clippy::unwrap_used, reason = "tests")]

mod counting;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use counting::{Ask, Counter, Say, counter};
use steadfast_core::clock::{Clock, Timestamp};
use steadfast_core::id::Owner;
use steadfast_partition::cluster::{
    Cluster, ClusterNetwork, ClusterPeer, ClusterSetup, Members, NetworkError, NodeIdentity,
    PROTOCOL, SCHEMA, join,
};
use steadfast_partition::{NoopPerformer, Options, Router, Runtime, Services, SingleNode, Space};
use steadfast_storage::engine::{AcquireOutcome, Engine};
use steadfast_storage::hostile::{EngineFaults, HostileEngine};
use steadfast_storage::memory::MemoryEngine;
use steadfast_storage::{NodeLease, Options as StoreOptions, Store};
use tokio::time::Instant;

const LEASE: Duration = Duration::from_secs(10);

/// What a node does not use of its lease.
const MARGIN: Duration = Duration::from_secs(2);

/// How often it is looked.
const STEP: Duration = Duration::from_millis(50);

/// Tokio's clock, which tests stop and move.
struct Paused(Instant);

impl Clock for Paused {
    fn now(&self) -> Timestamp {
        Timestamp(1_800_000_000_000).plus(self.0.elapsed())
    }

    fn monotonic(&self) -> Duration {
        Duration::from_secs(1000) + self.0.elapsed()
    }
}

/// There are no others.
struct UnreachableNetwork;

#[async_trait]
impl ClusterNetwork for UnreachableNetwork {
    async fn send(&self, _: &ClusterPeer, _: Bytes, _: Duration) -> Result<Bytes, NetworkError> {
        Err(NetworkError::Unsent("no other node is there".to_owned()))
    }
}

struct Node {
    runtime: Arc<Runtime>,
    lease: NodeLease,
    _cluster: Cluster,
}

async fn start(engine: &Arc<dyn Engine>, clock: &Arc<dyn Clock>) -> Node {
    let setup = ClusterSetup {
        identity: NodeIdentity {
            name: "a".to_owned(),
            address: String::new(),
            cluster: "c".to_owned(),
            fingerprint: [0; 16],
            protocol: PROTOCOL,
            schema: SCHEMA,
        },
        lease: LEASE,
        clock: Arc::clone(clock),
        engine: Arc::clone(engine),
        members: Arc::new(Members::new(Arc::clone(clock), LEASE, 0)),
        network: Arc::new(UnreachableNetwork),
        probing: Arc::new(UnreachableNetwork),
    };
    let owner = join(&setup).await.unwrap();
    let lease = NodeLease::new(Arc::clone(clock));
    let options = StoreOptions {
        clock: Arc::clone(clock),
        lease: Some(lease.clone()),
        ..StoreOptions::new(owner)
    };
    let store = Arc::new(Store::start(Arc::clone(engine), options));
    let wanted = Space {
        number: 0,
        name: "main".into(),
        partitions: 2,
        incarnation: 1,
    };
    let space = Space::open(&**engine, wanted).await.unwrap();
    let options = Options {
        services: Services::new().with(Counter::default()),
        performer: Arc::new(NoopPerformer),
        router: Arc::new(Router::new(Arc::new(SingleNode))),
        clock: Arc::clone(clock),
    };
    let runtime = Arc::new(Runtime::new(Arc::clone(&store), space, options));
    let cluster = Cluster::start(setup, &runtime, store, lease.clone()).await;
    let cluster = cluster.unwrap();
    assert!(cluster.settled(LEASE).await);
    Node {
        runtime,
        lease,
        _cluster: cluster,
    }
}

#[tokio::test(start_paused = true)]
async fn t12_a_node_believes_its_memory_no_longer_than_others_wait_and_less() {
    let clock: Arc<dyn Clock> = Arc::new(Paused(Instant::now()));
    let memory = Arc::new(MemoryEngine::with_clock(Arc::clone(&clock)));
    let hostile = Arc::new(HostileEngine::new(
        memory.clone(),
        EngineFaults::default(),
        1,
    ));
    let engine: Arc<dyn Engine> = hostile.clone();
    let node = start(&engine, &clock).await;
    let handle = node.runtime.handle::<Counter>();
    let added = handle.call(counter("a"), Ask::Add(2)).await.unwrap();
    assert_eq!(added, Say::Now(2));
    let partition = node.runtime.space().partition(&counter("a"));
    let epoch = node.runtime.router().mailbox(partition).unwrap();
    let epoch = epoch.ledger().epoch();
    // Its renewals are lost from now on.
    hostile.set_faults(EngineFaults {
        unheard_renewal: 100,
        ..EngineFaults::default()
    });
    let began = Instant::now();
    let rival = Owner {
        node: 9,
        incarnation: 9,
    };
    let mut silent = None;
    let taken = loop {
        if !node.lease.holds() && silent.is_none() {
            silent = Some(began.elapsed());
        }
        let answer = handle.call(counter("a"), Ask::Get).await;
        // It answers only what no other node can have changed.
        assert!(answer.is_err() || silent.is_none(), "{answer:?}");
        if let AcquireOutcome::Granted(_) = memory.acquire(partition, rival, epoch).await.unwrap() {
            break began.elapsed();
        }
        assert!(began.elapsed() < LEASE * 2, "no other node took it");
        tokio::time::sleep(STEP).await;
    };
    let silent = silent.unwrap();
    assert!(silent <= LEASE - MARGIN, "{silent:?}");
    assert!(taken <= LEASE + STEP, "{taken:?}");
    // Its clock and the engine's may differ by that much.
    assert!(taken >= silent + MARGIN - STEP, "{silent:?} {taken:?}");
    assert!(node.runtime.router().mailbox(partition).is_none());
}

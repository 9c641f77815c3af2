//! Messages between nodes, and between regions.
//!
//! The other node has proven that it has the cluster key; what it sends is read with the
//! same care.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::clock::Clock;
use steadfast_core::codec::put_bytes;
use steadfast_core::id::Owner;
use steadfast_durable::{
    DeliveryOptions, Dispatcher, EntityOperation, Instances, KIND, NewInstance, Task, TaskHubs,
    signal_message, start_message,
};
use steadfast_events::{EventDataBatch, EventHubDefinition, EventHubs, publish_message};
use steadfast_jobs::JobScheduler;
use steadfast_partition::cluster::{
    Cluster, ClusterNetwork, ClusterPeer, ClusterSetup, Members, NetworkError, NodeIdentity,
    NodeMessageHandler, PROTOCOL, SCHEMA,
};
use steadfast_partition::region::RegionRequest;
use steadfast_partition::{
    Address, Envelope, Error, ErrorKind, Options, Result, Router, Runtime, ServiceKind, Services,
    SingleNode, Space,
};
use steadfast_realtime::{PeerNode, PeerTransport, Realtime, WORDS};
use steadfast_storage::memory::MemoryEngine;
use steadfast_storage::{Engine, NodeLease, Store};
use tokio::sync::watch;

use crate::links::welcomes;
use crate::records;
use crate::session::{MemoryBound, Session};
use crate::time::{PausedClock, due, settle};

/// The lease of a node.
const LEASE: Duration = Duration::from_secs(10);

/// The time-out until a partition that was handed over is served again.
const SETTLING: Duration = Duration::from_secs(600);

/// The event hub that exists.
const HUB: &str = "houses";

/// An event hub that no input names.
const GOOD: &str = "good-after-all";

/// The first byte of a record selects its destination.
mod to {
    /// The partitions, by the encodings of requests.
    pub(super) const NODE: u8 = 0;
    /// Hubs.
    pub(super) const HUBS: u8 = 1;
    /// Task hubs.
    pub(super) const TASK_HUBS: u8 = 2;
    /// The other region.
    pub(super) const REGION: u8 = 3;
    pub(super) const COUNT: u8 = 4;
}

/// A network that reaches no other node.
struct NoClusterNetwork;

#[async_trait]
impl ClusterNetwork for NoClusterNetwork {
    async fn send(
        &self,
        _: &ClusterPeer,
        _: Bytes,
        _: Duration,
    ) -> std::result::Result<Bytes, NetworkError> {
        Err(NetworkError::Unsent("there is no network".to_owned()))
    }
}

/// One other node, which never responds.
struct Silent(watch::Sender<u64>);

impl PeerTransport for Silent {
    fn me(&self) -> PeerNode {
        other("a")
    }

    fn all(&self) -> Vec<PeerNode> {
        vec![other("b")]
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }

    fn tell(
        &self,
        _: &PeerNode,
        kind: ServiceKind,
        _: Bytes,
    ) -> futures_util::future::BoxFuture<'_, Result<Bytes>> {
        let nowhere = Error::new(ErrorKind::NoService { kind });
        Box::pin(std::future::ready(Err(nowhere)))
    }
}

fn other(name: &str) -> PeerNode {
    PeerNode {
        name: name.to_owned(),
        life: 7,
    }
}

struct TaskHubHandler(TaskHubs);

#[async_trait]
impl NodeMessageHandler for TaskHubHandler {
    async fn handle(&self, message: Bytes) -> Result<Bytes> {
        self.0.handle_peer_message(&message).await
    }
}

struct RealtimeHandler(Realtime);

#[async_trait]
impl NodeMessageHandler for RealtimeHandler {
    async fn handle(&self, message: Bytes) -> Result<Bytes> {
        let malformed = |_| Error::new(ErrorKind::Malformed { what: "a word" });
        self.0.receive(message).map_err(malformed)
    }
}

pub(crate) struct PeerSession {
    cluster: Cluster,
    realtime: Realtime,
    hubs: TaskHubs,
    runtime: Arc<Runtime>,
}

impl Session for PeerSession {
    const NAME: &'static str = "peers";

    const BOUND: MemoryBound = MemoryBound {
        least: 256 * 1024,
        per_byte: 64,
    };

    async fn start() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(PausedClock::new());
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::with_clock(Arc::clone(&clock)));
        let owner = Owner {
            node: 1,
            incarnation: 7,
        };
        let lease = NodeLease::new(Arc::clone(&clock));
        let mut options = steadfast_storage::Options::new(owner);
        options.clock = Arc::clone(&clock);
        options.lease = Some(lease.clone());
        options.background = false;
        let store = Arc::new(Store::start(Arc::clone(&engine), options));
        let wanted = Space {
            number: 0,
            name: "main".into(),
            partitions: 1,
            incarnation: 1,
        };
        let space = Space::open(&*engine, wanted).await;
        let space = space.expect("the engine is empty");
        let router = Arc::new(Router::new(Arc::new(SingleNode)));
        let dispatcher = Dispatcher::new(
            Arc::clone(&router),
            Arc::clone(&clock),
            DeliveryOptions::default(),
        );
        let services = steadfast_events::register(Services::new());
        let options = Options {
            services: services.with(Instances).with(JobScheduler),
            performer: Arc::new(dispatcher.clone()),
            router,
            clock: Arc::clone(&clock),
        };
        let runtime = Arc::new(Runtime::new(Arc::clone(&store), space, options));
        let setup = ClusterSetup {
            identity: NodeIdentity {
                name: "a".to_owned(),
                address: "a:1".to_owned(),
                cluster: "c".to_owned(),
                fingerprint: [0; 16],
                protocol: PROTOCOL,
                schema: SCHEMA,
            },
            lease: LEASE,
            clock: Arc::clone(&clock),
            engine,
            members: Arc::new(Members::new(Arc::clone(&clock), LEASE, 0)),
            network: Arc::new(NoClusterNetwork),
            probing: Arc::new(NoClusterNetwork),
        };
        let cluster = Cluster::start(setup, &runtime, store, lease).await;
        let cluster = cluster.expect("the node is alone");
        assert!(cluster.settled(LEASE).await, "the partition is taken");
        let made = EventHubs::new(&runtime)
            .create(EventHubDefinition::new(HUB, 1))
            .await;
        made.expect("the hub is new");
        let hubs = TaskHubs::new(&runtime, dispatcher, BTreeMap::new());
        let realtime = Realtime::with_clock("a", clock);
        realtime.join_cluster(Arc::new(Silent(watch::Sender::new(0))));
        cluster.register_handler(KIND, Arc::new(TaskHubHandler(hubs.clone())));
        cluster.register_handler(WORDS, Arc::new(RealtimeHandler(realtime.clone())));
        Self {
            cluster,
            realtime,
            hubs,
            runtime,
        }
    }

    async fn take(&mut self, input: &[u8]) {
        for record in records::split(input) {
            let Some((to, rest)) = record.split_first() else {
                continue;
            };
            let bytes = Bytes::copy_from_slice(rest);
            match to % to::COUNT {
                to::NODE => {
                    let answer = self.cluster.answer(bytes);
                    due("an answer to a node", answer).await;
                }
                to::HUBS => drop(self.realtime.receive(bytes)),
                to::TASK_HUBS => {
                    let answer = self.hubs.handle_peer_message(&bytes);
                    drop(due("an answer about task hubs", answer).await);
                }
                _ => {
                    if let Ok(word) = RegionRequest::decode(bytes) {
                        drop(word.encode());
                    }
                }
            }
            settle().await;
        }
    }

    async fn answers(&mut self) {
        let answer = self.cluster.answer(Bytes::from_static(PROBE));
        let answer = due("an answer to a probe", answer).await;
        assert_eq!(answer.get(1), Some(&0), "a probe is answered");
        // A partition that was handed over comes back: there is no other node.
        let is_settled = self.cluster.settled(SETTLING).await;
        assert!(is_settled, "the partition has an owner again");
        let hubs = EventHubs::new(&self.runtime);
        let made = due(
            "an event hub",
            hubs.create(EventHubDefinition::new(GOOD, 1)),
        )
        .await;
        made.expect("an event hub can be made");
        let sender = due("an event hub that is found", hubs.sender(GOOD, None)).await;
        let sender = sender.expect("the hub is there");
        let batch = EventDataBatch::of(b"good").expect("one event");
        let sent = due("a publication", sender.send(batch)).await;
        sent.expect("an event can be sent");
        welcomes(&self.realtime).await;
        let hub = self.hubs.hub(GOOD).expect("a task hub");
        let task = Task {
            name: "Good".to_owned(),
            ..Task::default()
        };
        let started = due("an instance", hub.start(NewInstance::of(task))).await;
        started.expect("an instance can be started");
    }

    fn seeds() -> Vec<Vec<u8>> {
        seeds()
    }
}

/// Probes whether the node is alive.
const PROBE: &[u8] = &[1, 9];

/// Requests of each kind, in the encoding of version 1.
fn seeds() -> Vec<Vec<u8>> {
    let (partition, life) = ([0], [7; 16]);
    let counted = |bytes: &[u8]| {
        let mut out = Vec::new();
        put_bytes(&mut out, bytes);
        out
    };
    let request = |code: u8, rest: &[&[u8]]| {
        let head = [to::NODE, 1, code];
        [&head[..], &partition, &rest.concat()].concat()
    };
    let messages = [counted(b"one"), counted(b"two")].concat();
    let mut seeds = vec![
        [&[to::NODE][..], PROBE].concat(),
        request(2, &[&partition, &life, &[1, 2], &messages]),
        request(3, &[&[1, 5], &counted(b"key")]),
        request(3, &[&[2, 5, 0, 0, 10]]),
        request(3, &[&[3, 5]]),
        request(3, &[&[4, 5, 0, 0, 100]]),
        request(3, &[&[5, 5, 0]]),
        request(4, &[&[1, 1], &life]),
        request(5, &[&[3, 1], &counted(b"hello")]),
        request(6, &[]),
    ];
    for kind in [1, 2, 3, 4, 5, 16, 32, 64, 65] {
        let to = Address::new(ServiceKind(kind), "name", "key");
        let command = counted(&Envelope::new(to, "body").encode());
        seeds.push(request(1, &[&command]));
        seeds.push(request(8, &[&[2], &command, &command]));
        let head = [to::NODE, 1, 7, kind as u8];
        seeds.push([&head[..], &counted(b"\x01\x01b\x07")].concat());
    }
    for letter in letters() {
        let command = counted(&letter.encode());
        seeds.push(request(1, &[&command]));
        seeds.push(request(2, &[&partition, &life, &[1, 1], &command]));
        seeds.push(request(8, &[&[1], &command]));
    }
    let hello = [&b"\x01\x03hub"[..], &counted(b"\x02\x91\x03")].concat();
    let words = [&[1][..], &counted(&hello)].concat();
    let batch = [&b"\x01\x01b"[..], &life, &[1, 1], &words].concat();
    for to in [to::HUBS, to::TASK_HUBS, to::REGION] {
        seeds.push([&[to][..], &batch].concat());
        seeds.push([&[to][..], b"\x01\x04main\x03\x01"].concat());
    }
    seeds
}

/// Real commands of services.
fn letters() -> [Envelope; 3] {
    let batch = EventDataBatch::of(b"event").expect("one event");
    let event = publish_message(HUB, Some(0), batch).expect("a publication");
    let operation = EntityOperation {
        target: "@counter@a".to_owned(),
        name: "add".to_owned(),
        input: Some("1".to_owned()),
        ..EntityOperation::default()
    };
    let signal = signal_message("default", operation).expect("an operation");
    let task = Task {
        name: "One".to_owned(),
        ..Task::default()
    };
    let start = start_message("default", "one", "execution", task);
    [event, signal, start.expect("an instance")]
}

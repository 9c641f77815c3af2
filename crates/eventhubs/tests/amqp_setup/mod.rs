//! A node with event hubs that is served over AMQP.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use steadfast_core::clock::{Clock, SystemClock};
use steadfast_core::id::Owner;
use steadfast_core::limits;
use steadfast_eventhubs::amqp::{self, Context};
use steadfast_events::{Blobs, EventHubs};
use steadfast_net::access::{AccessControl, Key, KeyRing, Secret};
use steadfast_net::listen::{Listener, ListenerOptions};
use steadfast_partition::{NoopPerformer, Options, Router, Runtime, Services, SingleNode, Space};
use steadfast_storage::{Engine, Store};
use steadfast_storage_local::{self as local, LocalEngine};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The key that may do everything.
pub(crate) const KEY_NAME: &str = "RootManageSharedAccessKey";
pub(crate) const KEY: &str = "SAS_KEY_VALUE";

/// The account of blobs that everybody knows.
pub(crate) const ACCOUNT: &str = "devstoreaccount1";
pub(crate) const ACCOUNT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

pub(crate) struct Node {
    pub(crate) hubs: EventHubs,
    pub(crate) blobs: Blobs,
    pub(crate) runtime: Runtime,
    pub(crate) store: Arc<Store>,
    pub(crate) context: Arc<Context>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

/// Opens a folder and its event hubs.
pub(crate) async fn open(folder: &Path, clock: Arc<dyn Clock>) -> Node {
    open_with(folder, clock, limits::AMQP_IDLE).await
}

/// As [`open`], for clients that may be silent for so long.
pub(crate) async fn open_with(folder: &Path, clock: Arc<dyn Clock>, idle: Duration) -> Node {
    open_as(folder, clock, idle, |_| {}).await
}

/// As [`open_with`], with other bounds of the store.
pub(crate) async fn open_as(
    folder: &Path,
    clock: Arc<dyn Clock>,
    idle: Duration,
    change: impl FnOnce(&mut steadfast_storage::Options),
) -> Node {
    let services = steadfast_events::register(Services::new());
    open_services(folder, clock, idle, change, services).await
}

/// A node whose accounts of blobs have this limit.
pub(crate) async fn open_limited(folder: &Path, limit: u64) -> Node {
    let services = steadfast_events::register(Services::new());
    let services = steadfast_events::limit_blob_accounts(services, limit);
    let clock = Arc::new(SystemClock::new());
    open_services(folder, clock, limits::AMQP_IDLE, |_| {}, services).await
}

async fn open_services(
    folder: &Path,
    clock: Arc<dyn Clock>,
    idle: Duration,
    change: impl FnOnce(&mut steadfast_storage::Options),
    services: Services,
) -> Node {
    let engine: Arc<dyn Engine> =
        Arc::new(LocalEngine::open(folder, &local::Options::default()).expect("the folder opens"));
    let owner = Owner {
        node: 1,
        incarnation: clock.now().0 as u128,
    };
    let mut options = steadfast_storage::Options::new(owner);
    options.clock = Arc::clone(&clock);
    change(&mut options);
    let store = Arc::new(Store::start(Arc::clone(&engine), options));
    let wanted = Space {
        number: 0,
        name: "main".into(),
        partitions: 16,
        incarnation: 1,
    };
    let space = Space::open(&*engine, wanted).await.expect("a space");
    let options = Options {
        services,
        performer: Arc::new(NoopPerformer),
        router: Arc::new(Router::new(Arc::new(SingleNode))),
        clock: Arc::clone(&clock),
    };
    let runtime = Runtime::new(Arc::clone(&store), space, options);
    runtime
        .serve_all()
        .await
        .expect("all partitions are served");
    let hubs = EventHubs::new(&runtime);
    let context = Context {
        hubs: hubs.clone(),
        access: Some(Arc::new(AccessControl::new(ring(), Arc::clone(&clock)))),
        clock: Arc::clone(&clock),
        container: "steadfast-test".to_owned(),
        idle,
        served: TaskTracker::new(),
    };
    Node {
        blobs: Blobs::new(&runtime, hubs.clone()),
        hubs,
        runtime,
        store,
        context: Arc::new(context),
        clock,
        stop: CancellationToken::new(),
        tasks: TaskTracker::new(),
    }
}

/// A node in a new folder, which is removed with it.
pub(crate) async fn start() -> (Node, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let node = open(folder.path(), Arc::new(SystemClock::new())).await;
    (node, folder)
}

fn ring() -> KeyRing {
    let mut ring = KeyRing::new();
    for (name, grant, secret) in [
        (KEY_NAME, "manage *", KEY),
        ("sender", "send events", "send secret"),
        ("listener", "listen events", "bGlzdGVuIHNlY3JldA=="),
        (ACCOUNT, "manage events", ACCOUNT_KEY),
        ("worker-a", "listen events, send events", "d29ya2VyIGE="),
        ("worker-b", "listen events, send events", "d29ya2VyIGI="),
        (
            "house-worker",
            "listen events/houses, send events/houses",
            "aG91c2U=",
        ),
    ] {
        let grants = grant.split(", ");
        let grants = grants.map(|grant| grant.parse().expect("a grant"));
        let grants = grants.collect();
        let primary = Secret::new(secret);
        assert!(ring.add(Key {
            name: name.to_owned(),
            grants,
            primary,
            secondary: None,
        }));
    }
    ring
}

impl Node {
    /// Serves AMQP on a free port.
    pub(crate) fn listen(&self) -> SocketAddr {
        let listener = Listener::bind(ListenerOptions {
            address: ([127, 0, 0, 1], 0).into(),
            tls: None,
            connections: 10_000,
        });
        let listener = listener.expect("a port");
        let address = listener.address();
        let (context, stop) = (Arc::clone(&self.context), self.stop.clone());
        let serving = listener.run(self.stop.clone(), self.tasks.clone(), move |stream, _| {
            amqp::serve(stream, Arc::clone(&context), stop.clone())
        });
        self.tasks.spawn(serving);
        address
    }

    /// Ends the node cleanly.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.runtime
            .drain(Vec::new(), Duration::from_secs(10))
            .await;
        let Self {
            hubs,
            blobs,
            runtime,
            store,
            context,
            ..
        } = self;
        drop((hubs, blobs, runtime, context));
        if let Some(store) = Arc::into_inner(store) {
            store.close().await;
        }
    }
}

pub(crate) mod blobs;
pub(crate) mod talk;

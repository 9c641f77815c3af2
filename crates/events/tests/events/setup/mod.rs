//! A node with event hubs, in a folder.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::path::Path;
use std::sync::Arc;

use steadfast_core::clock::{Clock, SystemClock};
use steadfast_core::id::Owner;
use steadfast_events::{
    EventData, EventDataBatch, EventHubs, EventPosition, PartitionReader, ReaderOptions, Sealer,
};
use steadfast_partition::{
    CollectionReplicas, NoopPerformer, Options, Router, Runtime, Services, SingleNode, Space,
};
use steadfast_storage::{Engine, Store};
use steadfast_storage_local::{self as local, LocalEngine};
use tempfile::TempDir;

pub(crate) const PARTITIONS: u16 = 8;

pub(crate) struct Node {
    pub(crate) hubs: EventHubs,
    pub(crate) replicas: Arc<CollectionReplicas>,
    pub(crate) runtime: Runtime,
    pub(crate) store: Arc<Store>,
    pub(crate) folder: Option<TempDir>,
}

/// A node in a new folder, which goes with it.
pub(crate) async fn start() -> Node {
    let folder = tempfile::tempdir().unwrap();
    let mut node = open(folder.path()).await;
    node.folder = Some(folder);
    node
}

pub(crate) async fn open(folder: &Path) -> Node {
    open_with(folder, Arc::new(SystemClock::new())).await
}

pub(crate) async fn open_with(folder: &Path, clock: Arc<dyn Clock>) -> Node {
    let services = steadfast_events::register(Services::new());
    open_services(folder, clock, services).await
}

/// A node whose keys of policies are sealed.
pub(crate) async fn open_sealed(folder: &Path, sealer: Arc<dyn Sealer>) -> Node {
    let services = steadfast_events::register_sealed(Services::new(), sealer);
    open_services(folder, Arc::new(SystemClock::new()), services).await
}

pub(crate) async fn open_services(
    folder: &Path,
    clock: Arc<dyn Clock>,
    services: Services,
) -> Node {
    let options = local::Options {
        log_file_bytes: 4 * 1024 * 1024,
        event_file_bytes: 256 * 1024,
        ..local::Options::default()
    };
    let engine: Arc<dyn Engine> = Arc::new(when_free(folder, &options).await);
    let owner = Owner {
        node: 1,
        incarnation: fastrand::u128(..),
    };
    let mut options = steadfast_storage::Options::new(owner);
    options.clock = Arc::clone(&clock);
    let store = Arc::new(Store::start(Arc::clone(&engine), options));
    let wanted = Space {
        number: 0,
        name: "main".into(),
        partitions: PARTITIONS,
        incarnation: fastrand::u128(..),
    };
    let space = Space::open(&*engine, wanted).await.unwrap();
    let router = Arc::new(Router::new(Arc::new(SingleNode)));
    let options = Options {
        services,
        performer: Arc::new(NoopPerformer),
        router: Arc::clone(&router),
        clock,
    };
    let runtime = Runtime::new(Arc::clone(&store), space, options);
    runtime.serve_all().await.unwrap();
    Node {
        hubs: EventHubs::new(&runtime),
        replicas: Arc::new(CollectionReplicas::new(router, Default::default())),
        runtime,
        store,
        folder: None,
    }
}

/// Opens a folder as soon as tasks of a node that has just ended have let go of it.
async fn when_free(folder: &Path, options: &local::Options) -> LocalEngine {
    let opening = async {
        loop {
            match LocalEngine::open(folder, options) {
                Ok(engine) => return engine,
                Err(error) if error.code().0 == "STF-2001" => {
                    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    };
    let patience = std::time::Duration::from_secs(10);
    tokio::time::timeout(patience, opening).await.unwrap()
}

impl Node {
    /// Ends the node cleanly; its folder can be opened again.
    pub(crate) async fn stop(self) -> Option<TempDir> {
        let limit = std::time::Duration::from_secs(10);
        self.runtime.drain(Vec::new(), limit).await;
        let Self {
            hubs,
            replicas,
            runtime,
            store,
            folder,
        } = self;
        drop((hubs, replicas, runtime));
        if let Some(store) = Arc::into_inner(store) {
            store.close().await;
        }
        folder
    }

    /// Sends single events to a partition.
    pub(crate) async fn send(&self, hub: &str, partition: u32, bodies: &[&str]) {
        let sender = self.hubs.sender(hub, Some(partition)).await.unwrap();
        for body in bodies {
            sender.send(one(body)).await.unwrap();
        }
    }

    pub(crate) async fn read(
        &self,
        hub: &str,
        partition: u32,
        start: EventPosition,
    ) -> PartitionReader {
        let attach = ReaderOptions::at(start);
        let reader = self.hubs.reader(hub, "$Default", partition, attach);
        reader.await.unwrap()
    }

    /// Everything that is in a partition now.
    pub(crate) async fn all(&self, hub: &str, partition: u32) -> Vec<EventData> {
        let reader = self.read(hub, partition, EventPosition::Earliest).await;
        rest(reader).await
    }
}

pub(crate) fn one(body: &str) -> EventDataBatch {
    EventDataBatch::of(body.as_bytes()).unwrap()
}

/// Everything up to the end.
pub(crate) async fn rest(mut reader: PartitionReader) -> Vec<EventData> {
    let mut events = Vec::new();
    while let Some(mut publication) = reader.try_next().await.unwrap() {
        while let Some(event) = publication.next_event().unwrap() {
            events.push(event);
        }
    }
    events
}

pub(crate) fn bodies(events: &[EventData]) -> Vec<String> {
    let text = |event: &EventData| String::from_utf8(event.body.to_vec()).unwrap();
    events.iter().map(text).collect()
}

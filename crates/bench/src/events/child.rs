//! The child process that serves event hubs.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use steadfast_core::clock::{Clock, SystemClock};
use steadfast_core::id::Owner;
use steadfast_core::limits;
use steadfast_eventhubs::amqp::{self, Context};
use steadfast_events::{EventHubDefinition, EventHubs};
use steadfast_net::access::{AccessControl, Grant, Key, KeyRing, Secret};
use steadfast_net::listen::{Listener, ListenerOptions};
use steadfast_partition::{NoopPerformer, Options, Router, Runtime, Services, SingleNode, Space};
use steadfast_storage::{Options as StoreOptions, Store};
use steadfast_storage_local::{self as local, LocalEngine};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::link::{IDLE_HUB, IDLE_PARTITIONS, KEY, KEY_NAME, LOAD_HUB, LOAD_PARTITIONS};
use crate::child::wait_saying;
use crate::process::allow_files;

/// Partitions of a space with defaults.
const PARTITIONS: u16 = 64;

const CONNECTIONS: usize = 10_000;

/// Serves a folder by AMQP, reports its port, and waits for its end.
pub fn serve(folder: &Path, input: impl Read, output: impl Write) -> Result<()> {
    allow_files();
    let tasks = tokio::runtime::Runtime::new()?;
    let engine = Arc::new(LocalEngine::open(folder, &local::Options::default())?);
    let (_node, port) = tasks.block_on(start(&engine))?;
    wait_saying(&port.to_string(), input, output)
}

async fn start(engine: &Arc<LocalEngine>) -> Result<(Runtime, u16)> {
    let incarnation = u128::from(fastrand::u64(..));
    let owner = Owner {
        node: 1,
        incarnation,
    };
    let store = Store::start(Arc::clone(engine) as _, StoreOptions::new(owner));
    let space = Space {
        number: 0,
        name: "main".into(),
        partitions: PARTITIONS,
        incarnation,
    };
    let space = Space::open(&**engine, space).await?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let options = Options {
        services: steadfast_events::register(Services::new()),
        performer: Arc::new(NoopPerformer),
        router: Arc::new(Router::new(Arc::new(SingleNode))),
        clock: Arc::clone(&clock),
    };
    let node = Runtime::new(Arc::new(store), space, options);
    node.serve_all().await?;
    let hubs = EventHubs::new(&node);
    hubs.ensure(EventHubDefinition::new(LOAD_HUB, LOAD_PARTITIONS))
        .await?;
    hubs.ensure(EventHubDefinition::new(IDLE_HUB, IDLE_PARTITIONS))
        .await?;
    let mut ring = KeyRing::new();
    ring.add(Key {
        name: KEY_NAME.to_owned(),
        grants: vec![Grant::everything()],
        primary: Secret::new(KEY),
        secondary: None,
    });
    let context = Arc::new(Context {
        hubs,
        access: Some(Arc::new(AccessControl::new(ring, Arc::clone(&clock)))),
        clock,
        container: "bench".to_owned(),
        idle: limits::AMQP_IDLE,
        served: TaskTracker::new(),
    });
    let listener = Listener::bind(ListenerOptions {
        address: ([127, 0, 0, 1], 0).into(),
        tls: None,
        connections: CONNECTIONS,
    })?;
    let port = listener.address().port();
    let stop = CancellationToken::new();
    let serving = listener.run(stop.clone(), TaskTracker::new(), move |stream, _| {
        amqp::serve(stream, Arc::clone(&context), stop.clone())
    });
    tokio::spawn(serving);
    Ok((node, port))
}

//! A node with task hubs and workers, on a folder.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use steadfast_core::clock::{Clock, SystemClock};
use steadfast_core::id::Owner;
use steadfast_durable::native::FunctionHost;
use steadfast_durable::{DeliveryOptions, Dispatcher, Instances, TaskHub, TaskHubs};
use steadfast_partition::{Options, Router, Runtime, Services, SingleNode, Space};
use steadfast_storage::{Options as StoreOptions, Store};
use steadfast_storage_local::{self as local, LocalEngine};

use super::functions::functions;

/// Partitions of a space with defaults.
const PARTITIONS: u16 = 64;

/// A running node. Fields are dropped in this order: tasks have to end before the
/// engine does, because they hold it.
pub(super) struct Session {
    _host: Option<FunctionHost>,
    pub(super) hub: TaskHub,
    pub(super) hubs: TaskHubs,
    _node: Runtime,
    store: Arc<Store>,
    pub(super) tasks: tokio::runtime::Runtime,
}

impl Session {
    /// Opens a folder, serves all partitions and runs the functions.
    pub(super) fn open(folder: &Path) -> Result<Self> {
        let session = Self::bare(folder)?;
        let entered = session.tasks.enter();
        let host = FunctionHost::start(session.hub.clone(), functions());
        drop(entered);
        Ok(Self {
            _host: Some(host),
            ..session
        })
    }

    /// The same without functions.
    pub(super) fn bare(folder: &Path) -> Result<Self> {
        let tasks = tokio::runtime::Runtime::new()?;
        let engine = Arc::new(LocalEngine::open(folder, &local::Options::default())?);
        let (node, store, hubs) = tasks.block_on(start(&engine))?;
        Ok(Self {
            _host: None,
            hub: hubs.hub("default")?,
            hubs,
            _node: node,
            store,
            tasks,
        })
    }

    /// Flushes everything to the tables.
    pub(super) fn flush(&self) -> Result<()> {
        Ok(self.tasks.block_on(self.store.flush())?)
    }
}

async fn start(engine: &Arc<LocalEngine>) -> Result<(Runtime, Arc<Store>, TaskHubs)> {
    let incarnation = u128::from(fastrand::u64(..));
    let owner = Owner {
        node: 1,
        incarnation,
    };
    let store = Arc::new(Store::start(
        Arc::clone(engine) as _,
        StoreOptions::new(owner),
    ));
    let space = Space {
        number: 0,
        name: "main".into(),
        partitions: PARTITIONS,
        incarnation,
    };
    let space = Space::open(&**engine, space).await?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let router = Arc::new(Router::new(Arc::new(SingleNode)));
    let dispatcher = Dispatcher::new(
        Arc::clone(&router),
        Arc::clone(&clock),
        DeliveryOptions::default(),
    );
    let options = Options {
        services: Services::new().with(Instances),
        performer: Arc::new(dispatcher.clone()),
        router,
        clock,
    };
    let node = Runtime::new(Arc::clone(&store), space, options);
    node.serve_all().await?;
    let hubs = TaskHubs::new(&node, dispatcher, BTreeMap::new());
    Ok((node, store, hubs))
}

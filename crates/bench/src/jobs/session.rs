//! A node that serves jobs, on a folder.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use steadfast_core::clock::{Clock, SystemClock};
use steadfast_core::id::Owner;
use steadfast_jobs::{JobClient, JobRunner, JobScheduler};
use steadfast_net::egress::EgressPolicy;
use steadfast_partition::{Options, Router, Runtime, Services, SingleNode, Space};
use steadfast_scheduler::SecretKey;
use steadfast_scheduler::outbound::{Options as OutboundOptions, OutboundDelivery};
use steadfast_storage::{Options as StoreOptions, Store};
use steadfast_storage_local::{self as local, LocalEngine};

/// Partitions of a space with defaults.
const PARTITIONS: u16 = 64;

/// A running node. Fields are dropped in this order: tasks have to end before the
/// engine does, because they hold it.
pub(super) struct Session {
    pub(super) jobs: JobClient,
    _node: Runtime,
    store: Arc<Store>,
    pub(super) tasks: tokio::runtime::Runtime,
}

impl Session {
    /// Opens a folder and serves all partitions, as a node does when it starts.
    pub(super) fn open(folder: &Path) -> Result<Self> {
        let tasks = tokio::runtime::Runtime::new()?;
        let engine = Arc::new(LocalEngine::open(folder, &local::Options::default())?);
        let (node, store, jobs) = tasks.block_on(start(&engine))?;
        Ok(Self {
            jobs,
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

async fn start(engine: &Arc<LocalEngine>) -> Result<(Runtime, Arc<Store>, JobClient)> {
    let incarnation = u128::from(fastrand::u64(..));
    let owner = Owner {
        node: 1,
        incarnation,
    };
    let store = Store::start(Arc::clone(engine) as _, StoreOptions::new(owner));
    let store = Arc::new(store);
    let space = Space {
        number: 0,
        name: "main".into(),
        partitions: PARTITIONS,
        incarnation,
    };
    let space = Space::open(&**engine, space).await?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let mut outbound = OutboundOptions::new(SecretKey::new("bench"));
    // The target of a measurement is on loopback.
    outbound.connect.guard.policy = EgressPolicy::with_private();
    let outbound =
        OutboundDelivery::new(outbound, Arc::clone(&clock)).map_err(|why| anyhow!(why))?;
    let router = Arc::new(Router::new(Arc::new(SingleNode)));
    let runner = JobRunner::new(Arc::clone(&router), Arc::new(outbound), Arc::clone(&clock));
    let options = Options {
        services: Services::new().with(JobScheduler),
        performer: Arc::new(runner.clone()),
        router,
        clock,
    };
    let node = Runtime::new(Arc::clone(&store), space, options);
    node.serve_all().await?;
    let jobs = JobClient::new(&node, runner);
    Ok((node, store, jobs))
}

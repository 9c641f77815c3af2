//! A node with all partitions of a space, on a folder.
//!
//! Dropping a session flushes nothing: the next session recovers unflushed commits from
//! the log, as after a crash.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use steadfast_core::clock::SystemClock;
use steadfast_core::id::Owner;
use steadfast_partition::{Handle, Options, Router, Runtime, Services, SingleNode, Space};
use steadfast_storage::{Options as StoreOptions, Store};
use steadfast_storage_local::{self as local, LocalEngine};

use super::load::LoadService;
use super::meter::LatenessMeter;
use crate::counting::Counting;
use crate::report::Values;

/// The longest turn of an owner loop: elapsed time and CPU time.
#[derive(Default)]
pub(super) struct LongestTurn {
    pub(super) turn_ms: f64,
    pub(super) work_ms: f64,
}

impl LongestTurn {
    pub(super) fn record(&self, through: &str, figures: &mut Values) {
        figures.record(format!("longest_turn_ms_{through}"), self.turn_ms);
        figures.record(format!("longest_work_ms_{through}"), self.work_ms);
    }
}

/// Partitions of a space with defaults.
pub(super) const PARTITIONS: u16 = 64;

/// A running node. Fields are dropped in this order: tasks have to end before the
/// engine does, because they hold it.
pub(super) struct Session {
    pub(super) node: Runtime,
    store: Arc<Store>,
    pub(super) tasks: tokio::runtime::Runtime,
    pub(super) engine: Arc<Counting>,
    pub(super) meter: Arc<LatenessMeter>,
}

impl Session {
    /// Opens a folder and serves all partitions, as a node does when it starts.
    pub(super) fn open(folder: &Path) -> Result<Self> {
        let tasks = tokio::runtime::Runtime::new()?;
        let engine = Counting::new(LocalEngine::open(folder, &local::Options::default())?);
        let meter = Arc::new(LatenessMeter::new());
        let (node, store) = tasks.block_on(start(&engine, &meter))?;
        Ok(Self {
            node,
            store,
            tasks,
            engine,
            meter,
        })
    }

    pub(super) fn handle(&self) -> Handle<LoadService> {
        self.node.handle()
    }

    /// Commands that were handled, of any origin.
    pub(super) fn commands(&self) -> u64 {
        let doors = self.node.router().mailboxes();
        let count = |door: &steadfast_partition::Mailbox| door.metrics().counts().commands;
        doors.iter().map(count).sum()
    }

    /// The longest turn of any partition since the last call, and its longest CPU time,
    /// in milliseconds.
    pub(super) fn take_longest(&self) -> LongestTurn {
        let mut longest = LongestTurn::default();
        for door in self.node.router().mailboxes() {
            let (turn, work) = door.metrics().take_longest();
            longest.turn_ms = longest.turn_ms.max(turn.as_secs_f64() * 1e3);
            longest.work_ms = longest.work_ms.max(work.as_secs_f64() * 1e3);
        }
        longest
    }

    /// Flushes everything to the tables.
    pub(super) fn flush(&self) -> Result<()> {
        Ok(self.tasks.block_on(self.store.flush())?)
    }
}

async fn start(
    engine: &Arc<Counting>,
    meter: &Arc<LatenessMeter>,
) -> Result<(Runtime, Arc<Store>)> {
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
    let meter = Arc::clone(meter);
    let options = Options {
        services: Services::new().with(LoadService {
            meter: Arc::clone(&meter),
        }),
        performer: meter,
        router: Arc::new(Router::new(Arc::new(SingleNode))),
        clock: Arc::new(SystemClock::new()),
    };
    let node = Runtime::new(Arc::clone(&store), space, options);
    node.serve_all().await?;
    Ok((node, store))
}

//! A store on a folder, with all its partitions.
//!
//! Dropping a session flushes nothing: the next session recovers unflushed commits from
//! the log, as after a crash.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use steadfast_core::id::{Owner, Partition, TableId};
use steadfast_storage::{Ledger, Options, Store};
use steadfast_storage_local::{self as local, LocalEngine};
use tokio::runtime::Runtime;

use crate::counting::Counting;

/// Partitions of a store, as in a data folder with defaults.
pub(crate) const PARTITIONS: u16 = 64;

/// The table that all rows are in.
pub(crate) const TABLE: TableId = TableId(1);

/// An open store. Fields are dropped in this order: the runtime has to end before
/// the engine does, because its tasks hold the engine.
pub(crate) struct Session {
    pub(crate) ledgers: Vec<Ledger>,
    store: Arc<Store>,
    pub(crate) runtime: Runtime,
    pub(crate) engine: Arc<Counting>,
}

/// The default options of a single node.
pub(crate) fn options() -> Options {
    Options::new(Owner {
        node: 1,
        incarnation: u128::from(fastrand::u64(..)),
    })
}

impl Session {
    /// Opens a folder and acquires all partitions, as a node does when it starts.
    pub(crate) fn open(folder: &Path, options: Options) -> Result<Self> {
        let engine = LocalEngine::open(folder, &local::Options::default())?;
        Self::over(Counting::new(engine), options)
    }

    /// Acquires all partitions of an engine.
    pub(crate) fn over(engine: Arc<Counting>, options: Options) -> Result<Self> {
        let runtime = Runtime::new()?;
        let start = async {
            let store = Arc::new(Store::start(Arc::clone(&engine) as _, options));
            let ledgers = acquire_all(&store).await?;
            anyhow::Ok((store, ledgers))
        };
        let (store, ledgers) = runtime.block_on(start)?;
        Ok(Self {
            ledgers,
            store,
            runtime,
            engine,
        })
    }

    /// The partition that a key belongs to.
    pub(crate) fn ledger_of(&self, key: u64) -> &Ledger {
        ledger_of(&self.ledgers, key)
    }

    /// Log bytes that are not flushed to the tables yet.
    pub(crate) fn unflushed(&self) -> u64 {
        self.store.unflushed()
    }

    /// Flushes everything to the tables.
    pub(crate) fn flush(&self) -> Result<()> {
        Ok(self.runtime.block_on(self.store.flush())?)
    }
}

/// The partition that a key belongs to.
pub(crate) fn ledger_of(ledgers: &[Ledger], key: u64) -> &Ledger {
    &ledgers[(key % ledgers.len() as u64) as usize]
}

async fn acquire_all(store: &Arc<Store>) -> Result<Vec<Ledger>> {
    let acquire = |index| {
        let store = Arc::clone(store);
        tokio::spawn(async move { store.acquire(Partition::new(0, index)).await })
    };
    let tasks: Vec<_> = (0..PARTITIONS).map(acquire).collect();
    let mut ledgers = Vec::with_capacity(tasks.len());
    for task in tasks {
        ledgers.push(task.await??);
    }
    Ok(ledgers)
}

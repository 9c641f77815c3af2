//! A partition on an engine.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::sync::Arc;

use steadfast_collections::{Options, Replica};
use steadfast_core::id::{Owner, Partition};
use steadfast_storage::engine::Engine;
use steadfast_storage::{Options as StoreOptions, Store};

pub(crate) struct Site {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) store: Store,
    pub(crate) replica: Replica,
}

impl Site {
    pub(crate) async fn new() -> Self {
        Self::on(crate::engine::fresh().await).await
    }

    /// With room for all rows.
    pub(crate) async fn roomy() -> Self {
        Self::with(crate::engine::fresh().await, 64 * 1024 * 1024).await
    }

    async fn on(engine: Arc<dyn Engine>) -> Self {
        // Little room, so that rows come and go.
        Self::with(engine, 64 * 1024).await
    }

    async fn with(engine: Arc<dyn Engine>, resident_bytes: usize) -> Self {
        let options = StoreOptions::new(Owner {
            node: 1,
            incarnation: u128::from(fastrand::u64(..)),
        });
        let store = Store::start(Arc::clone(&engine), options);
        let ledger = store.acquire(Partition(1)).await.unwrap();
        let options = Options {
            resident_bytes,
            ..Options::default()
        };
        let replica = Replica::primary(ledger, options).await.unwrap();
        Self {
            engine,
            store,
            replica,
        }
    }

    pub(crate) async fn restart(self) -> Self {
        let engine = Arc::clone(&self.engine);
        self.store.close().await;
        Self::on(engine).await
    }
}

pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(work)
}

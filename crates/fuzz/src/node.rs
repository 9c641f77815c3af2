//! Partitions in memory, with the services of a test.

use std::sync::Arc;

use steadfast_core::clock::Clock;
use steadfast_core::id::Owner;
use steadfast_partition::{Options, Performer, Router, Runtime, Services, Space};
use steadfast_storage::memory::MemoryEngine;
use steadfast_storage::{Engine, Store};

/// A runtime, and the store below it.
pub(crate) struct MemoryNode {
    pub(crate) runtime: Runtime,
    _store: Arc<Store>,
}

impl MemoryNode {
    /// Serves one partition.
    pub(crate) async fn start(
        services: Services,
        performer: Arc<dyn Performer>,
        router: Arc<Router>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::with_clock(Arc::clone(&clock)));
        let owner = Owner {
            node: 1,
            incarnation: 1,
        };
        let mut options = steadfast_storage::Options::new(owner);
        options.clock = Arc::clone(&clock);
        // Nothing may depend on another thread.
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
        let options = Options {
            services,
            performer,
            router,
            clock,
        };
        let runtime = Runtime::new(Arc::clone(&store), space, options);
        let served = runtime.serve_all().await;
        served.expect("no other node has the partition");
        Self {
            runtime,
            _store: store,
        }
    }
}

//! Opens the engine and store of a configuration.

use std::sync::Arc;

use steadfast_core::clock::Clock;
use steadfast_core::id::Owner;
use steadfast_net::access::Secret;
use steadfast_storage::memory::MemoryEngine;
use steadfast_storage::{Engine, Options, Store};
use steadfast_storage_local::{self as local, LocalEngine};
use uuid::Uuid;

use super::cluster::JoinedCluster;
use super::error::Result;
use super::postgres::{self, ShardedEngine};
use crate::config::{Config, EngineKind as Choice};

/// An engine.
pub(super) struct OpenedEngine {
    pub(super) engine: Arc<dyn Engine>,
    /// The same engine, if it is PostgreSQL.
    pub(super) shards: Option<Arc<ShardedEngine>>,
}

/// State in memory that outlives a node: for tests that start it again.
#[derive(Clone)]
pub(crate) struct KeptMemory {
    pub(crate) engine: Arc<dyn Engine>,
    /// The secret of the server, which is generated otherwise.
    pub(crate) secret: Secret,
}

/// Opens the engine. Recovery of a log takes time, so it runs on a blocking thread.
pub(super) async fn engine(config: &Config, clock: &Arc<dyn Clock>) -> Result<OpenedEngine> {
    let engine: Arc<dyn Engine> = match config.engine {
        Choice::Memory => Arc::new(MemoryEngine::with_clock(Arc::clone(clock))),
        Choice::Postgres => {
            let (engine, shards) = postgres::open(config).await?;
            let shards = Some(shards);
            return Ok(OpenedEngine { engine, shards });
        }
        Choice::Local => {
            let options = local::Options {
                clock: Arc::clone(clock),
                ..local::Options::default()
            };
            let data = config.data.clone();
            let opening = tokio::task::spawn_blocking(move || LocalEngine::open(&data, &options));
            Arc::new(opening.await.expect("opening does not panic")?)
        }
    };
    let shards = None;
    Ok(OpenedEngine { engine, shards })
}

/// Starts a store on the engine, with a new incarnation of this node.
pub(super) fn store(
    config: &Config,
    engine: Arc<dyn Engine>,
    clock: &Arc<dyn Clock>,
    joined: Option<&JoinedCluster>,
) -> Store {
    let alone = || Owner {
        node: 1,
        incarnation: Uuid::new_v4().as_u128(),
    };
    let owner = joined.map_or_else(alone, |joined| joined.owner);
    let options = Options {
        clock: Arc::clone(clock),
        lease: joined.map(|joined| joined.lease.clone()),
        log_target: config.log_target,
        log_limit: config.log_limit(),
        row_cache: config.memory / 2,
        event_tail: config.memory / 4,
        ..Options::new(owner)
    };
    Store::start(engine, options)
}

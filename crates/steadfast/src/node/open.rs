//! Opens the state that a configuration names.

use std::sync::Arc;

use steadfast_core::clock::Clock;
use steadfast_core::id::Owner;
use steadfast_storage::local::{self, Local};
use steadfast_storage::memory::Memory;
use steadfast_storage::postgres::{self, Postgres};
use steadfast_storage::{Engine, Options, Store};
use uuid::Uuid;

use super::error::Result;
use crate::config::{Config, Engine as Choice};

/// Opens the engine. Reading a log that was left behind takes time, so this runs
/// where it disturbs nobody.
pub(super) async fn engine(config: &Config, clock: &Arc<dyn Clock>) -> Result<Arc<dyn Engine>> {
    Ok(match config.engine {
        Choice::Memory => Arc::new(Memory::with_clock(Arc::clone(clock))),
        Choice::Postgres => {
            let url = config.postgres_url.clone().unwrap_or_default();
            Arc::new(Postgres::open(postgres::Options::new(url)).await?)
        }
        Choice::Local => {
            let options = local::Options {
                clock: Arc::clone(clock),
                ..local::Options::default()
            };
            let data = config.data.clone();
            let opening = tokio::task::spawn_blocking(move || Local::open(&data, &options));
            Arc::new(opening.await.expect("opening does not panic")?)
        }
    })
}

/// Starts a store on the engine, in a new life of this node.
pub(super) fn store(config: &Config, engine: Arc<dyn Engine>, clock: &Arc<dyn Clock>) -> Store {
    let owner = Owner {
        node: 1,
        incarnation: Uuid::new_v4().as_u128(),
    };
    let options = Options {
        clock: Arc::clone(clock),
        log_target: config.log_target,
        log_limit: config.log_limit,
        row_cache: config.memory / 2,
        event_tail: config.memory / 4,
        ..Options::new(owner)
    };
    Store::start(engine, options)
}

//! A node with all partitions of the cluster.

use std::sync::Arc;

use anyhow::Result;
use steadfast_core::id::{Owner, Partition};
use steadfast_storage::{Ledger, Options, Store};
use steadfast_storage_postgres::PostgresEngine;

use super::settings::{PARTITIONS, Settings};

/// An engine, its store and all partitions.
pub(super) struct PostgresNode {
    pub(super) engine: Arc<PostgresEngine>,
    pub(super) store: Store,
    pub(super) ledgers: Vec<Ledger>,
}

impl PostgresNode {
    /// Starts a node that acquires all partitions.
    pub(super) async fn start(settings: &Settings, number: u32) -> Result<Self> {
        let engine = Arc::new(PostgresEngine::open(settings.options()).await?);
        let options = Options::new(Owner {
            node: number,
            incarnation: u128::from(fastrand::u64(..)),
        });
        let store = Store::start(Arc::clone(&engine) as _, options);
        let mut ledgers = Vec::new();
        for partition in 0..PARTITIONS {
            ledgers.push(store.acquire(Partition(partition)).await?);
        }
        Ok(Self {
            engine,
            store,
            ledgers,
        })
    }
}

//! Other nodes, as task hubs know them.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use steadfast_partition::Result as PartitionResult;
use tokio::sync::watch;

use crate::dispatch::Worker;

/// The other nodes.
#[async_trait]
pub trait Others: Send + Sync + 'static {
    /// Their names; rings when they change.
    fn names(&self) -> Vec<String>;

    /// Rings when the names may have changed.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Tells one of them something.
    async fn tell(&self, name: &str, word: Bytes) -> PartitionResult<Bytes>;
}

/// Workers of other nodes.
#[derive(Default)]
pub(super) struct Guests {
    pub(super) seats: Mutex<HashMap<u64, Arc<Guest>>>,
}

pub(super) struct Guest {
    pub(super) worker: tokio::sync::Mutex<Worker>,
    /// How often its node has asked.
    pub(super) asked: Mutex<u64>,
}

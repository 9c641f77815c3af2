//! What replication needs from the cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::clock::Clock;
use steadfast_core::id::{Owner, Partition};
use steadfast_storage::NodeLease;
use steadfast_storage::engine::Engine;
use steadfast_storage::memory::MemoryEngine;

use super::message::{Message, ReplicationEnvelope, Response};

/// The nodes of the cluster, as this one sees them.
#[async_trait]
pub trait ClusterPeers: Send + Sync + 'static {
    /// Whether this node is to own a volatile partition: it has the one of the same
    /// index in the main space, and a lease.
    fn may_own(&self, partition: Partition) -> bool;

    /// Other living nodes that are not leaving.
    fn staying(&self) -> Vec<Owner>;

    /// Whether a node lives, in this very incarnation.
    fn is_living(&self, node: Owner) -> bool;

    /// Sends a message to a node and returns its response; `None` if the outcome is
    /// unknown. `is_bulk`: the response may be long.
    async fn send(&self, to: Owner, letter: Bytes, limit: Duration, is_bulk: bool)
    -> Option<Bytes>;
}

/// What owner and holder tasks share.
pub(super) struct ReplicationContext {
    pub(super) me: Owner,
    /// The partitions of this node, and its replicas of others.
    pub(super) local: MemoryEngine,
    /// The engine that stores the replica-set records.
    pub(super) durable: Arc<dyn Engine>,
    pub(super) peers: Arc<dyn ClusterPeers>,
    pub(super) clock: Arc<dyn Clock>,
    /// Fences a node that is the only holder.
    pub(super) lease: Option<NodeLease>,
    /// Counts full copies, so that late parts of earlier ones are recognised.
    pub(super) sessions: AtomicU64,
}

/// Time-out of a small message, and the bytes per millisecond that a slow link carries.
const LETTER: Duration = Duration::from_secs(1);
const BYTES_PER_MS: usize = 1000;

impl ReplicationContext {
    /// Sends a message to a holder and returns its response.
    pub(super) async fn send(&self, to: Owner, letter: &ReplicationEnvelope) -> Option<Response> {
        let bytes = letter.encode();
        let time = Duration::from_millis((bytes.len() / BYTES_PER_MS) as u64);
        let is_bulk = matches!(letter.message, Message::Read { .. });
        let limit = if is_bulk { LETTER * 5 } else { LETTER + time };
        let answer = self.peers.send(to, bytes, limit, is_bulk).await?;
        Response::decode(answer).ok()
    }

    /// The number of the next full copy.
    pub(super) fn session(&self) -> u64 {
        self.sessions.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Whether this node may acknowledge anything.
    pub(super) fn has_lease(&self) -> bool {
        self.lease.as_ref().is_none_or(NodeLease::holds)
    }
}

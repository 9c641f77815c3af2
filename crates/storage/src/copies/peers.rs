//! What copies need of the cluster around them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::clock::Clock;
use steadfast_core::id::{Owner, Partition};

use super::word::{Answer, Letter, Word};
use crate::engine::Engine;
use crate::lease::Lease;
use crate::memory::Memory;

/// The nodes of the cluster, as this one sees them.
#[async_trait]
pub trait Peers: Send + Sync + 'static {
    /// Whether this node is to own a volatile partition: it has the one of the same
    /// index in the main space, and a lease.
    fn may_own(&self, partition: Partition) -> bool;

    /// Other living nodes that do not leave.
    fn staying(&self) -> Vec<Owner>;

    /// Whether a node is there, in this very life.
    fn is_living(&self, node: Owner) -> bool;

    /// Brings a letter to a node and its answer back; `None` if that is not certain.
    /// `is_bulk`: the answer may be long.
    async fn send(&self, to: Owner, letter: Bytes, limit: Duration, is_bulk: bool)
    -> Option<Bytes>;
}

/// What everything here shares.
pub(super) struct Common {
    pub(super) me: Owner,
    /// The partitions of this node, and its copies of others.
    pub(super) local: Memory,
    /// Where records are durable.
    pub(super) durable: Arc<dyn Engine>,
    pub(super) peers: Arc<dyn Peers>,
    pub(super) clock: Arc<dyn Clock>,
    /// A node alone with its copy is fenced by nobody else.
    pub(super) lease: Option<Lease>,
    /// Counts whole copies, so that late parts of earlier ones are known as such.
    pub(super) sessions: AtomicU64,
}

/// How long a small letter may take, and how many bytes a slow line carries in a
/// millisecond.
const LETTER: Duration = Duration::from_secs(1);
const BYTES_PER_MS: usize = 1000;

impl Common {
    /// Tells a holder something.
    pub(super) async fn tell(&self, to: Owner, letter: &Letter) -> Option<Answer> {
        let bytes = letter.encode();
        let time = Duration::from_millis((bytes.len() / BYTES_PER_MS) as u64);
        let is_bulk = matches!(letter.word, Word::Read { .. });
        let limit = match is_bulk {
            true => LETTER * 5,
            false => LETTER + time,
        };
        let answer = self.peers.send(to, bytes, limit, is_bulk).await?;
        Answer::decode(answer).ok()
    }

    /// The number of the next whole copy.
    pub(super) fn session(&self) -> u64 {
        self.sessions.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Whether this node may acknowledge anything.
    pub(super) fn has_lease(&self) -> bool {
        self.lease.as_ref().is_none_or(Lease::holds)
    }
}

//! What all parts of the engine share.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use steadfast_core::id::Partition;
use tokio::sync::watch;

use super::known_partitions::{KnownPartition, KnownPartitions};
use super::options::Options;
use super::pool::SessionPool;
use super::servers::Servers;
use crate::error::{Error, Result};

/// Connections of one node to one cluster, at most: the listener comes on top.
const COMMITTERS: usize = 4;
const READERS: usize = 2;
const KEEPERS: usize = 2;
const FLUSHERS: usize = 2;

/// How far behind a standby may be before flushes are delayed, and for how long.
const LAG_MS: u64 = 5_000;
const LAG_PAUSE: Duration = Duration::from_millis(100);
const LAG_LOOKS: u32 = 50;

/// Servers, sessions and cached state of the engine.
pub(super) struct PostgresContext {
    pub(super) servers: Arc<Servers>,
    /// For commits.
    pub(super) committers: SessionPool,
    /// For reads.
    pub(super) readers: SessionPool,
    /// For acquisitions and cluster records.
    pub(super) keepers: SessionPool,
    /// For flushes, which may take long: acquisitions never wait for one.
    pub(super) flushers: SessionPool,
    /// For leases, which must not wait at all.
    pub(super) leases: SessionPool,
    pub(super) holdings: Mutex<KnownPartitions>,
    /// Segments of events that exist.
    pub(super) segments: Mutex<BTreeSet<i32>>,
    /// Why writes are refused at present.
    pub(super) refusal: Mutex<Option<Error>>,
    pub(super) wake: watch::Sender<u64>,
    /// Commit statements that were sent.
    pub(super) statements: AtomicU64,
    /// Replay lag of the slowest standby at the last check, in milliseconds.
    pub(super) replay_lag_ms: AtomicU64,
}

impl PostgresContext {
    pub(super) fn new(servers: Servers) -> Self {
        let servers = Arc::new(servers);
        Self {
            committers: SessionPool::new(&servers, COMMITTERS),
            readers: SessionPool::new(&servers, READERS),
            keepers: SessionPool::new(&servers, KEEPERS),
            flushers: SessionPool::new(&servers, FLUSHERS),
            leases: SessionPool::new(&servers, 1),
            holdings: Mutex::default(),
            segments: Mutex::default(),
            refusal: Mutex::default(),
            wake: watch::channel(0).0,
            statements: AtomicU64::new(0),
            replay_lag_ms: AtomicU64::new(0),
            servers,
        }
    }

    pub(super) fn options(&self) -> &Options {
        &self.servers.options
    }

    /// Notes an acquisition, unless a later one of this process is known: an acquisition
    /// that takes long to verify does not replace its successor.
    pub(super) fn note_acquired(&self, partition: Partition, held: KnownPartition) {
        let mut holdings = self.holdings.lock();
        let known = holdings.entry(partition).or_default();
        if known.epoch <= held.epoch {
            *known = held;
        }
    }

    /// Fails while the settings were unsafe at the last check.
    pub(super) fn expect_safe(&self) -> Result<()> {
        match &*self.refusal.lock() {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Waits a while for unsafe settings to be corrected: after a failover the manager
    /// soon corrects them.
    pub(super) async fn wait_until_safe(&self, patience: Duration) -> Result<()> {
        let looking = async {
            while self.expect_safe().is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        match tokio::time::timeout(patience, looking).await {
            Ok(()) => Ok(()),
            Err(_) => self.expect_safe(),
        }
    }

    /// Delays a flush while standbys replay too slowly. They acknowledge all the same, but a
    /// promoted standby has to replay everything first: a delayed flush keeps failovers
    /// short, and in the end writers are throttled. A standby that never catches up slows
    /// flushes down and does not stop them.
    pub(super) async fn wait_for_standbys(&self) {
        for _ in 0..LAG_LOOKS {
            if self.replay_lag_ms.load(Ordering::Relaxed) <= LAG_MS {
                return;
            }
            tokio::time::sleep(LAG_PAUSE).await;
        }
    }

    /// Wakes the watchers of the engine.
    pub(super) fn woken(&self) {
        self.wake.send_modify(|count| *count += 1);
    }

    /// The channel on which nodes wake one another; one per schema.
    pub(super) fn channel(&self) -> String {
        format!("steadfast_{}", self.options().schema)
    }
}

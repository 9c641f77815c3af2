//! What all parts of the engine share.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use steadfast_core::id::Partition;
use steadfast_storage::{Error, Result};
use tokio::sync::watch;

use crate::known_partitions::{KnownPartition, KnownPartitions};
use crate::options::Options;
use crate::pool::SessionPool;
use crate::servers::Servers;

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
pub(crate) struct PostgresContext {
    pub(crate) servers: Arc<Servers>,
    /// For commits.
    pub(crate) committers: SessionPool,
    /// For reads.
    pub(crate) readers: SessionPool,
    /// For acquisitions and cluster records.
    pub(crate) keepers: SessionPool,
    /// For flushes, which may take long: acquisitions never wait for one.
    pub(crate) flushers: SessionPool,
    /// For leases, which must not wait at all.
    pub(crate) leases: SessionPool,
    pub(crate) holdings: Mutex<KnownPartitions>,
    /// Segments of events that exist.
    pub(crate) segments: Mutex<BTreeSet<i32>>,
    /// Why writes are refused at present.
    pub(crate) refusal: Mutex<Option<Error>>,
    pub(crate) wake: watch::Sender<u64>,
    /// Commit statements that were sent.
    pub(crate) statements: AtomicU64,
    /// Replay lag of the slowest standby at the last check, in milliseconds.
    pub(crate) replay_lag_ms: AtomicU64,
}

impl PostgresContext {
    pub(crate) fn new(servers: Servers) -> Self {
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

    pub(crate) fn options(&self) -> &Options {
        &self.servers.options
    }

    /// Notes an acquisition, unless a later one of this process is known: an acquisition
    /// that takes long to verify does not replace its successor.
    pub(crate) fn note_acquired(&self, partition: Partition, held: KnownPartition) {
        let mut holdings = self.holdings.lock();
        let known = holdings.entry(partition).or_default();
        if known.epoch <= held.epoch {
            *known = held;
        }
    }

    /// Fails while the settings were unsafe at the last check.
    pub(crate) fn expect_safe(&self) -> Result<()> {
        match &*self.refusal.lock() {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Waits a while for unsafe settings to be corrected: after a failover the manager
    /// soon corrects them.
    pub(crate) async fn wait_until_safe(&self, patience: Duration) -> Result<()> {
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
    pub(crate) async fn wait_for_standbys(&self) {
        for _ in 0..LAG_LOOKS {
            if self.replay_lag_ms.load(Ordering::Relaxed) <= LAG_MS {
                return;
            }
            tokio::time::sleep(LAG_PAUSE).await;
        }
    }

    /// Wakes the watchers of the engine.
    pub(crate) fn woken(&self) {
        self.wake.send_modify(|count| *count += 1);
    }

    /// The channel on which nodes wake one another; one per schema.
    pub(crate) fn channel(&self) -> String {
        format!("steadfast_{}", self.options().schema)
    }
}

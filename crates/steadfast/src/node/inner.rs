//! The state that all parts of a node share.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use steadfast_admin::{DrainReport, NodeRestoreRequest, RestoreOutcome};
use steadfast_backup::{BackupKey, BackupProgress};
use steadfast_core::clock::Clock;
use steadfast_durable::native::FunctionHost;
use steadfast_net::access::{AccessControl, Key, KeyRing, development_ring};
use steadfast_net::http::{HealthCheck, NodeHealth};
use steadfast_net::listen::{Certificate, Governor};
use steadfast_net::log_ring::LogRing;
use steadfast_partition::cluster::{Cluster, Forwarder};
use steadfast_partition::{DrainHook, Runtime};
use steadfast_storage::{Engine, Store};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::built_in_services::BuiltInServices;
use super::error::Result;
use super::hubs::RealtimeHubs;
use super::keys::KeyFile;
use super::listen_address::ListenAddress;
use super::postgres::ShardedEngine;
use super::region::PairMember;
use super::time::VirtualTime;
use super::volatile_services::VolatileServices;
use super::watchdog::Watchdog;
use crate::config::Config;

/// The shared state of a node.
pub(super) struct Inner {
    /// For tasks that outlive the call that started them.
    pub(super) me: Weak<Self>,
    pub(super) config: Config,
    pub(super) is_development: bool,
    pub(super) clock: Arc<dyn Clock>,
    /// The clock of credentials and requests; it is the system's also if `clock` is not.
    pub(super) session_clock: Arc<dyn Clock>,
    /// The clock, if it is moved by hand.
    pub(super) virtual_time: Option<VirtualTime>,
    pub(super) began: Duration,
    /// The engine beneath the store, for reading what other nodes have flushed.
    pub(super) engine: Arc<dyn Engine>,
    pub(super) store: Arc<Store>,
    /// The databases, if the engine is PostgreSQL.
    pub(super) shards: Option<Arc<ShardedEngine>>,
    pub(super) runtime: Arc<Runtime>,
    /// The cluster membership of this node.
    pub(super) cluster: Option<Arc<Cluster>>,
    /// This server's membership in a region pair.
    pub(super) paired: Option<Arc<PairMember>>,
    /// Forwards requests to partitions of other nodes.
    pub(super) forwarder: Option<Arc<Forwarder>>,
    pub(super) services: BuiltInServices,
    /// Volatile services.
    pub(super) volatile: VolatileServices,
    /// Hosts of user functions; they run as long as the node.
    pub(super) hosts: Mutex<Vec<FunctionHost>>,
    pub(super) hosted: RealtimeHubs,
    pub(super) access: Arc<AccessControl>,
    pub(super) keys: KeyFile,
    /// Signs the tokens that this server issues to clients of hubs.
    pub(super) client_key: Key,
    /// Seals backups; a node without durable state has none.
    pub(super) backup_key: Option<BackupKey>,
    /// Held while the key file is changed or read, until the new keys are in use.
    pub(super) key_lock: Mutex<()>,
    pub(super) certificate: Option<Arc<Certificate>>,
    /// Counts the connections of clients on all ports.
    pub(super) governor: Arc<Governor>,
    pub(super) health: Arc<NodeHealth>,
    pub(super) addresses: Mutex<Vec<ListenAddress>>,
    /// The keys of the configuration at its last reload.
    pub(super) declared: RwLock<KeyRing>,
    /// Reads the configuration again.
    pub(super) source: Option<ConfigReader>,
    /// The last lines of the process's log, if it keeps them.
    pub(super) log: Option<Arc<LogRing>>,
    /// Hooks that run after a reload.
    pub(super) reloads: Mutex<Vec<ReloadHook>>,
    /// Hooks that run before the partitions are handed over.
    pub(super) hooks: Mutex<Vec<DrainHook>>,
    /// Cancelled when the drain starts; AMQP connections then close.
    pub(super) leaving: CancellationToken,
    /// Cancelled when the node stops; all connections then end.
    pub(super) stop: CancellationToken,
    pub(super) tasks: TaskTracker,
    /// Detects worker threads that one task blocks.
    pub(super) watchdog: Watchdog,
    /// How many restores this process has done, and the outcome of the last one.
    pub(super) restores: u64,
    pub(super) restored: Option<RestoreOutcome>,
    /// How far a running backup is.
    pub(super) backup: Mutex<Option<watch::Receiver<BackupProgress>>>,
    /// A restore to run after the drain.
    pub(super) pending_restore: Mutex<Option<NodeRestoreRequest>>,
    pub(super) is_leaving: AtomicBool,
    /// The report of the drain, once it is complete.
    pub(super) left: watch::Sender<Option<DrainReport>>,
    /// Cancelled when the node was drained over REST: its process may end.
    pub(super) ended: CancellationToken,
}

/// Reads the configuration again.
pub(super) type ConfigReader = Box<dyn Fn() -> std::result::Result<Config, String> + Send + Sync>;

/// A named hook that applies a reloaded configuration.
pub(super) type ReloadHook = (
    &'static str,
    Box<dyn Fn(&Config) -> std::result::Result<(), String> + Send + Sync>,
);

impl Inner {
    pub(super) fn uptime(&self) -> Duration {
        self.clock.monotonic().saturating_sub(self.began)
    }

    pub(super) fn partitions(&self) -> u16 {
        self.runtime.space().partitions
    }

    /// The health checks of the node.
    pub(super) fn checks(&self) -> Vec<HealthCheck> {
        let serving = self.runtime.serving().len();
        let all = usize::from(self.partitions());
        let served = match &self.cluster {
            Some(cluster) => all - cluster.status().idle.len(),
            None => serving,
        };
        let missing = (served < all).then(|| format!("{served} of {all} partitions are served"));
        let failures = self.store.owned();
        let failure = failures.iter().find_map(steadfast_storage::Ledger::failure);
        vec![
            HealthCheck {
                name: "partitions",
                ailment: missing,
            },
            HealthCheck {
                name: "storage",
                ailment: failure.map(|error| error.to_string()),
            },
        ]
    }
}

/// The keys in effect: those of the configuration, those of the key file and, in
/// development, the well-known ones.
pub(super) fn ring(declared: &KeyRing, keys: &KeyFile, is_development: bool) -> Result<KeyRing> {
    let mut ring = if is_development {
        development_ring()
    } else {
        KeyRing::new()
    };
    for key in declared.keys() {
        ring.add((**key).clone());
    }
    for key in keys.load()? {
        ring.add(key);
    }
    Ok(ring)
}

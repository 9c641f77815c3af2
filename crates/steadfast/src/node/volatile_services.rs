//! Volatile services: collections in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use steadfast_collections::{Lifecycle, Options, Replica, ServiceDefinition};
use steadfast_core::clock::Clock;
use steadfast_core::id::Owner;
use steadfast_partition::Runtime;
use steadfast_partition::cluster::Cluster;
use steadfast_partition::volatile::{ReplicaPeers, VolatileSpace};
use steadfast_storage::memory::MemoryEngine;
use steadfast_storage::{Engine, NodeLease, Options as StoreOptions, Store};
use steadfast_storage_replicated::replicated_memory::{ReplicatedMemory, ReplicationSetup};
use tokio::sync::{MappedMutexGuard, Mutex, MutexGuard};

use super::error::Result;
use super::service_partition::ServicePartition;
use crate::config::Config;

/// The share of the log budget for the volatile space, whose log is flushed to memory.
const LOG_SHARE: u64 = 8;

/// The row cache can be small: the tables are in memory themselves.
const ROW_CACHE: u64 = 1024 * 1024;

/// The volatile services of a node.
pub(super) struct VolatileServices {
    space: VolatileSpace,
    clock: Arc<dyn Clock>,
    /// By store partition; locked while a partition of a service is opened, so that no
    /// caller uses it before the lifecycle callbacks have run.
    known: Vec<Mutex<Option<VolatilePartition>>>,
}

/// A store partition with open partitions of services.
struct VolatilePartition {
    replica: Replica,
    /// The incarnation of each of them.
    open: BTreeMap<(String, u32), u64>,
}

/// Starts the volatile space. In a cluster it is replicated to other nodes; `durable` and
/// `lease` are then the cluster's.
pub(super) fn start(
    config: &Config,
    runtime: &Arc<Runtime>,
    clock: &Arc<dyn Clock>,
    (durable, lease): (Arc<dyn Engine>, Option<NodeLease>),
    cluster: Option<&Arc<Cluster>>,
) -> VolatileServices {
    let alone = Owner {
        node: 1,
        incarnation: 1,
    };
    let options = StoreOptions {
        clock: Arc::clone(clock),
        lease: lease.clone(),
        log_target: config.log_target / LOG_SHARE,
        log_limit: config.log_limit() / LOG_SHARE,
        row_cache: ROW_CACHE,
        event_tail: 0,
        ..StoreOptions::new(cluster.map_or(alone, |cluster| cluster.owner()))
    };
    let space = match cluster.zip(lease) {
        Some((cluster, lease)) => {
            let (router, main) = (Arc::clone(runtime.router()), runtime.space().number);
            let fellows = Arc::new(ReplicaPeers::new(router, main, lease.clone()));
            let copies = Arc::new(ReplicatedMemory::new(ReplicationSetup {
                me: cluster.owner(),
                durable,
                peers: Arc::clone(&fellows) as _,
                clock: Arc::clone(clock),
                lease: Some(lease),
            }));
            let store = Arc::new(Store::start(Arc::clone(&copies) as _, options));
            cluster.add_store(Arc::clone(&store));
            fellows.join(cluster, &copies);
            VolatileSpace::start(runtime, store, Some(copies))
        }
        None => {
            let memory = Arc::new(MemoryEngine::with_clock(Arc::clone(clock)));
            let store = Arc::new(Store::start(memory, options));
            VolatileSpace::start(runtime, store, None)
        }
    };
    let partitions = runtime.space().partitions;
    VolatileServices {
        space,
        clock: Arc::clone(clock),
        known: (0..partitions).map(|_| Mutex::default()).collect(),
    }
}

impl VolatileServices {
    /// The number of nodes with a replica of a partition that is open here.
    pub(super) fn replica_count(&self, index: u16) -> usize {
        let charter = self.space.replica_set(index);
        charter.map_or(1, |charter| charter.holders.len())
    }

    /// The number of partitions of services without a replica on another node. Skips store partitions that are
    /// being opened.
    pub(super) fn unreplicated_partitions(&self) -> u64 {
        let mut count = 0;
        for (index, known) in self.known.iter().enumerate() {
            // Opening a partition may take long.
            let Ok(known) = known.try_lock() else {
                continue;
            };
            let Some(known) = &*known else {
                continue;
            };
            let ledger = known.replica.ledger();
            let is_ours = ledger.is_ok_and(|ledger| ledger.failure().is_none());
            if is_ours && self.replica_count(index as u16) <= 1 {
                count += known.open.len() as u64;
            }
        }
        count
    }

    /// Opens a local partition of a service. `home` is the store partition of the same index
    /// in the main space.
    pub(super) async fn partition(
        &self,
        home: &Replica,
        index: u16,
        service: &ServiceDefinition,
        number: u32,
    ) -> Result<ServicePartition> {
        let mut known = self.known(index).await?;
        let (replica, key) = (known.replica.clone(), (service.name.clone(), number));
        if let Some(incarnation) = known.open.get(&key) {
            let state = service.state(&replica, number)?;
            return Ok(ServicePartition::new(replica, state, *incarnation));
        }
        let entered = service
            .open_without_lifecycle(home.ledger()?, &replica, number)
            .await?;
        if entered.was_lost {
            tracing::warn!(
                event = "volatile.state_lost",
                service = service.name,
                partition = number,
                incarnation = entered.incarnation,
                "the state of a partition of a volatile service was lost; it starts empty"
            );
        }
        known.open.insert(key, entered.incarnation);
        Ok(ServicePartition::new(
            replica,
            entered.state,
            entered.incarnation,
        ))
    }

    /// Opens a partition and calls its lifecycle callbacks.
    pub(super) async fn partition_with(
        &self,
        home: &Replica,
        index: u16,
        service: &ServiceDefinition,
        number: u32,
        life: &impl Lifecycle,
    ) -> Result<ServicePartition> {
        let mut known = self.known(index).await?;
        let (replica, key) = (known.replica.clone(), (service.name.clone(), number));
        let opened = service.open(home.ledger()?, &replica, number, life).await?;
        known.open.insert(key, opened.incarnation);
        Ok(ServicePartition::new(
            replica,
            opened.state,
            opened.incarnation,
        ))
    }

    /// Locks a store partition.
    async fn known(&self, index: u16) -> Result<MappedMutexGuard<'_, VolatilePartition>> {
        let ledger = self.space.ledger(index).await?;
        let mut known = self.known[usize::from(index)].lock().await;
        let is_lost = |known: &VolatilePartition| {
            let ledger = known.replica.ledger();
            ledger.is_ok_and(|ledger| ledger.failure().is_some())
        };
        if let Some(former) = known.take_if(|known| is_lost(known)) {
            // Holders of the old replica get an error.
            former.replica.close();
        }
        if known.is_none() {
            let options = Options {
                clock: Arc::clone(&self.clock),
                is_volatile: true,
                ..Options::default()
            };
            *known = Some(VolatilePartition {
                replica: Replica::primary(ledger, options).await?,
                open: BTreeMap::new(),
            });
        }
        let known = MutexGuard::map(known, |known| known.as_mut().expect("it was set"));
        Ok(known)
    }
}

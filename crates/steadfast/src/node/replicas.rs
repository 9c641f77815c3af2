//! Collections on the node's own partitions.
//!
//! A replica belongs to one tenure of its partition. When the partition was taken
//! again, the next use opens a new one.

use std::collections::BTreeMap;
use std::sync::Arc;

use steadfast_collections::{Lifecycle, Options, Replica, Scheme, Service, SlotKey, State, Work};
use steadfast_core::id::{Epoch, Partition};
use steadfast_partition::{Error as PartitionError, ErrorKind};
use tokio::sync::Mutex;

use super::error::Result;
use super::inner::Inner;

/// The replicas that are open.
#[derive(Default)]
pub(super) struct Replicas {
    open: Mutex<BTreeMap<Partition, (Epoch, Replica)>>,
}

impl Inner {
    /// The replica of a partition of the main space, as it is owned now.
    pub(super) async fn replica(&self, index: u16) -> Result<Replica> {
        let partition = Partition::new(self.runtime.space().number, index);
        let Some(door) = self.runtime.router().door(partition) else {
            return Err(PartitionError::new(ErrorKind::NotOwner { partition }).into());
        };
        let ledger = door.ledger();
        let mut open = self.replicas.open.lock().await;
        if let Some((epoch, replica)) = open.get(&partition)
            && *epoch == ledger.epoch()
        {
            return Ok(replica.clone());
        }
        let options = Options {
            clock: Arc::clone(&self.clock),
            ..Options::default()
        };
        let replica = Replica::primary(ledger.clone(), options).await?;
        let former = open.insert(partition, (ledger.epoch(), replica.clone()));
        if let Some((_, former)) = former {
            former.close();
        }
        Ok(replica)
    }
}

/// A partitioned service of collections, on this node.
#[derive(Clone)]
pub struct StatefulService {
    inner: Arc<Inner>,
    service: Arc<Service>,
}

/// The collections of one slot of a service.
#[derive(Clone)]
pub struct Slot {
    replica: Replica,
    state: State,
}

/// A slot whose owner wants to be told nothing.
struct Quiet;

impl Lifecycle for Quiet {}

impl StatefulService {
    pub(super) async fn open(inner: Arc<Inner>, name: &str, scheme: Scheme) -> Result<Self> {
        let service = Service {
            name: name.to_owned(),
            scheme,
            is_volatile: false,
        };
        let home = inner
            .replica(service.partition(0, inner.partitions()))
            .await?;
        let service = Service::create(home.ledger()?, service).await?;
        let service = Arc::new(service);
        Ok(Self { inner, service })
    }

    /// The slot that holds a key.
    pub async fn slot(&self, key: SlotKey<'_>) -> Result<Slot> {
        let partitions = self.inner.partitions();
        let slot = self.service.slot(key)?;
        let home = self
            .inner
            .replica(self.service.partition(0, partitions))
            .await?;
        let replica = self
            .inner
            .replica(self.service.partition(slot, partitions))
            .await?;
        let opened = self
            .service
            .open(home.ledger()?, &replica, slot, &Quiet)
            .await?;
        Ok(Slot {
            replica,
            state: opened.state,
        })
    }
}

impl Slot {
    /// Its collections.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// What transactions are begun on.
    pub fn replica(&self) -> &Replica {
        &self.replica
    }

    /// Runs a transaction, again if it has to wait too long for a lock, and commits
    /// it: what it returns is durable.
    pub async fn run<T, F>(&self, work: F) -> steadfast_collections::Result<T>
    where
        F: for<'t> FnMut(&'t mut steadfast_collections::Tx<'_>) -> Work<'t, T>,
    {
        self.replica.run(work).await
    }
}

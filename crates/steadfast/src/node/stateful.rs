//! Partitioned services of collections.

use std::sync::Arc;

use steadfast_collections::{
    Lifecycle, Replica, Scheme, Service, SlotKey, State, Work, partition_of,
};
use steadfast_core::id::Partition;

use super::error::Result;
use super::inner::Inner;

/// A partitioned service of collections, on this node.
///
/// ```
/// use steadfast::collections::{Queue, Scheme, SlotKey};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let node = steadfast::Node::builder().memory().start().await?;
/// let orders = node.service("orders", Scheme::Singleton).await?;
/// let slot = orders.slot(SlotKey::Only).await?;
/// let waiting: Queue<String> = slot.state().get_or_add("waiting").await?;
/// slot.run(|tx| {
///     let waiting = waiting.clone();
///     Box::pin(async move { waiting.enqueue(tx, "order 1".into()).await })
/// })
/// .await?;
/// # Ok(())
/// # }
/// ```
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

    /// The service of this name, if there is one.
    pub(super) async fn find(inner: Arc<Inner>, name: &str) -> Result<Option<Self>> {
        let index = partition_of(name, 0, inner.partitions());
        let home = inner.replica(index).await?;
        let found = Service::find(home.ledger()?, name).await?;
        Ok(found.map(|service| Self {
            inner,
            service: Arc::new(service),
        }))
    }

    /// The slot that a text names, as the scheme reads it.
    pub(super) async fn slot_of(&self, text: Option<&str>) -> Result<Slot> {
        let number = text.and_then(|text| text.parse().ok());
        let key = match (&self.service.scheme, text, number) {
            (Scheme::Int64Range { .. }, _, Some(number)) => SlotKey::Number(number),
            (_, Some(name), _) => SlotKey::Name(name),
            (_, None, _) => SlotKey::Only,
        };
        self.slot(key).await
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
        F: for<'t> FnMut(&'t mut steadfast_collections::Tx<'static>) -> Work<'t, T>,
    {
        self.replica.run(work).await
    }
}

impl Inner {
    /// The collections of a partition of the main space.
    pub(super) async fn replica(&self, index: u16) -> Result<Replica> {
        let partition = Partition::new(self.runtime.space().number, index);
        Ok(self.own.replicas.of(partition).await?)
    }
}

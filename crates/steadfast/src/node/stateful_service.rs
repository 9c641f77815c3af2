//! Partitioned services of collections.

use std::sync::Arc;

use steadfast_collections::{Lifecycle, Options, Replica, Scheme, ServiceDefinition, SlotKey};
use steadfast_core::id::Partition;

use super::error::{Error, Result};
use super::inner::Inner;
use super::owner_rpc::{CollectionsRequest, service, to_slot_scheme};
use super::slot::Slot;

/// A partitioned service of collections. In a cluster, only the node that owns a slot's
/// partition can open the slot; other nodes get STF-4001 and may read it as a
/// [secondary](Self::secondary).
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
    service: Arc<ServiceDefinition>,
}

impl StatefulService {
    pub(super) async fn open(
        inner: Arc<Inner>,
        name: &str,
        scheme: Scheme,
        is_volatile: bool,
    ) -> Result<Self> {
        let (home, name) = (inner.definition_partition(name), name.to_owned());
        let scheme = to_slot_scheme(&scheme);
        let errand = CollectionsRequest::Create {
            name: name.clone(),
            scheme: scheme.clone(),
        };
        let errand = errand.of(is_volatile);
        inner
            .run_at_owner(home, errand)
            .await
            .map_err(Error::Answer)?;
        let service = Arc::new(service(name, scheme, is_volatile));
        Ok(Self { inner, service })
    }

    /// The slot that holds a key.
    pub async fn slot(&self, key: SlotKey<'_>) -> Result<Slot> {
        let slot = self.service.slot(key)?;
        self.inner.slot(&self.service, slot).await
    }

    /// The slot that holds a key, as a read-only secondary on any node. It shows consistent
    /// states that the owner has flushed, which may be stale. A transaction reports the
    /// state that it has read (`snapshot_lsn`), and its first write fails with STF-3002. A
    /// volatile service has no flushed state (STF-3019).
    ///
    /// ```
    /// use steadfast::collections::{ReplicaRole, Scheme, SlotKey};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = steadfast::Node::builder().memory().start().await?;
    /// let orders = node.service("orders", Scheme::Singleton).await?;
    /// let there = orders.secondary(SlotKey::Only)?;
    /// assert_eq!(there.replica().role(), ReplicaRole::ActiveSecondary);
    /// # Ok(())
    /// # }
    /// ```
    pub fn secondary(&self, key: SlotKey<'_>) -> Result<Slot> {
        let slot = self.service.slot(key)?;
        self.inner.secondary(&self.service, slot)
    }

    /// Like [`slot`](Self::slot), with lifecycle callbacks before the slot is used:
    /// `on_data_loss`, if the state of a volatile service was lost, then `open`. Callbacks
    /// receive the state and must not open the slot themselves.
    ///
    /// ```
    /// use steadfast::collections::{Lifecycle, Result, Scheme, SlotKey, State};
    ///
    /// struct Refill;
    ///
    /// impl Lifecycle for Refill {
    ///     async fn on_data_loss(&self, state: &State, incarnation: u64) -> Result<bool> {
    ///         println!("life {incarnation} begins with {:?}", state.list());
    ///         Ok(false)
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    /// let node = steadfast::Node::builder().memory().start().await?;
    /// let cache = node.volatile_service("cache", Scheme::Singleton).await?;
    /// let slot = cache.slot_with(SlotKey::Only, &Refill).await?;
    /// assert_eq!(slot.incarnation(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn slot_with(&self, key: SlotKey<'_>, life: &impl Lifecycle) -> Result<Slot> {
        let slot = self.service.slot(key)?;
        self.inner.slot_with(&self.service, slot, life).await
    }
}

impl Inner {
    /// The collections of a partition of the main space.
    pub(super) async fn replica(&self, index: u16) -> Result<Replica> {
        let partition = Partition::new(self.runtime.space().number, index);
        Ok(self.services.replicas.of(partition).await?)
    }

    /// A local slot.
    pub(super) async fn slot(&self, service: &ServiceDefinition, slot: u32) -> Result<Slot> {
        let index = service.partition(slot, self.partitions());
        let home = self.replica(index).await?;
        if service.is_volatile {
            return self.volatile.slot(&home, index, service, slot).await;
        }
        let state = service.state(&home, slot)?;
        Ok(Slot::new(home, state, 0))
    }

    /// A slot as a secondary, from its flushed state.
    fn secondary(&self, service: &ServiceDefinition, slot: u32) -> Result<Slot> {
        let index = service.partition(slot, self.partitions());
        let partition = Partition::new(self.runtime.space().number, index);
        let options = Options {
            clock: Arc::clone(&self.clock),
            ..Options::default()
        };
        let replica = Replica::secondary(Arc::clone(&self.engine), partition, options);
        let state = service.state(&replica, slot)?;
        Ok(Slot::new(replica, state, 0))
    }

    async fn slot_with(
        &self,
        service: &ServiceDefinition,
        slot: u32,
        life: &impl Lifecycle,
    ) -> Result<Slot> {
        let index = service.partition(slot, self.partitions());
        let home = self.replica(index).await?;
        if service.is_volatile {
            let opening = self.volatile.slot_with(&home, index, service, slot, life);
            return opening.await;
        }
        let opened = service.open(home.ledger()?, &home, slot, life).await?;
        Ok(Slot::new(home, opened.state, 0))
    }
}

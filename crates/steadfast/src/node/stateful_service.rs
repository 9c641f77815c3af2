//! Partitioned services of collections.

use std::sync::Arc;

use steadfast_collections::{Lifecycle, Options, PartitionKey, Replica, Scheme, ServiceDefinition};
use steadfast_core::id::Partition;

use super::error::{Error, Result};
use super::inner::Inner;
use super::owner_rpc::{CollectionsRequest, service, to_partition_scheme};
use super::service_partition::ServicePartition;

/// A partitioned service of collections. In a cluster, only the node that owns a partition
/// can open it; other nodes get STF-4001 and may read it as a
/// [secondary](Self::secondary).
///
/// ```
/// use steadfast::collections::Scheme;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let node = steadfast::Node::builder().memory().start().await?;
/// let halves = Scheme::Named(vec!["north".into(), "south".into()]);
/// let houses = node.partitioned("houses", halves).await?;
/// let north = houses.partition("north").await?;
/// let warmth = north.dictionary::<u32, f64>("warmth").await?;
/// let set = north.transact(async |mut tx| {
///     warmth.set(&mut tx, 7, 21.5).await?;
///     tx.commit(()).await
/// });
/// set.await?;
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
        let scheme = to_partition_scheme(&scheme);
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

    /// The partition that holds a key: a number or a name, as the scheme says.
    pub async fn partition<'k>(
        &self,
        key: impl Into<PartitionKey<'k>>,
    ) -> Result<ServicePartition> {
        let number = self.service.partition(key.into())?;
        self.inner.service_partition(&self.service, number).await
    }

    /// The partition that holds a key, as a read-only secondary on any node. It shows
    /// consistent states that the owner has flushed, which may be stale. A transaction
    /// reports the state that it has read (`snapshot_lsn`), and its first write fails with
    /// STF-3002. A volatile service has no flushed state (STF-3019).
    ///
    /// ```
    /// use steadfast::collections::{PartitionKey, ReplicaRole, Scheme};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let node = steadfast::Node::builder().memory().start().await?;
    /// let orders = node.partitioned("orders", Scheme::Singleton).await?;
    /// let there = orders.secondary(PartitionKey::Only)?;
    /// assert_eq!(there.replica().role(), ReplicaRole::ActiveSecondary);
    /// # Ok(())
    /// # }
    /// ```
    pub fn secondary<'k>(&self, key: impl Into<PartitionKey<'k>>) -> Result<ServicePartition> {
        let number = self.service.partition(key.into())?;
        self.inner.secondary(&self.service, number)
    }

    /// Like [`partition`](Self::partition), with lifecycle callbacks before the partition is
    /// used: `on_data_loss`, if the state of a volatile service was lost, then `open`.
    /// Callbacks receive the state and must not open the partition themselves.
    ///
    /// ```
    /// use steadfast::collections::{Lifecycle, PartitionKey, Result, Scheme, State};
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
    /// let cache = cache.partition_with(PartitionKey::Only, &Refill).await?;
    /// assert_eq!(cache.incarnation(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn partition_with<'k>(
        &self,
        key: impl Into<PartitionKey<'k>>,
        life: &impl Lifecycle,
    ) -> Result<ServicePartition> {
        let number = self.service.partition(key.into())?;
        let opening = self.inner.partition_with(&self.service, number, life);
        opening.await
    }
}

impl Inner {
    /// The collections of a store partition of the main space.
    pub(super) async fn replica(&self, index: u16) -> Result<Replica> {
        let partition = Partition::new(self.runtime.space().number, index);
        Ok(self.services.replicas.of(partition).await?)
    }

    /// A local partition of a service.
    pub(super) async fn service_partition(
        &self,
        service: &ServiceDefinition,
        number: u32,
    ) -> Result<ServicePartition> {
        let index = service.store_partition(number, self.partitions());
        let home = self.replica(index).await?;
        if service.is_volatile {
            return self.volatile.partition(&home, index, service, number).await;
        }
        let state = service.state(&home, number)?;
        Ok(ServicePartition::new(home, state, 0))
    }

    /// A partition of a service as a secondary, from its flushed state.
    fn secondary(&self, service: &ServiceDefinition, number: u32) -> Result<ServicePartition> {
        let index = service.store_partition(number, self.partitions());
        let partition = Partition::new(self.runtime.space().number, index);
        let options = Options {
            clock: Arc::clone(&self.clock),
            ..Options::default()
        };
        let replica = Replica::secondary(Arc::clone(&self.engine), partition, options);
        let state = service.state(&replica, number)?;
        Ok(ServicePartition::new(replica, state, 0))
    }

    async fn partition_with(
        &self,
        service: &ServiceDefinition,
        number: u32,
        life: &impl Lifecycle,
    ) -> Result<ServicePartition> {
        let index = service.store_partition(number, self.partitions());
        let home = self.replica(index).await?;
        if service.is_volatile {
            let opening = self
                .volatile
                .partition_with(&home, index, service, number, life);
            return opening.await;
        }
        let opened = service.open(home.ledger()?, &home, number, life).await?;
        Ok(ServicePartition::new(home, opened.state, 0))
    }
}

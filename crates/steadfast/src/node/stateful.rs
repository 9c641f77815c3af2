//! Partitioned services of collections.

use std::sync::Arc;

use steadfast_collections::{Replica, Scheme, Service, SlotKey};
use steadfast_core::id::Partition;

use super::error::{Error, Result};
use super::inner::Inner;
use super::lending::{Errand, service, shown};
use super::slot::Slot;

/// A partitioned service of collections. In a cluster a slot is opened on the node that
/// owns its partition; others are refused with STF-4001.
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

impl StatefulService {
    pub(super) async fn open(inner: Arc<Inner>, name: &str, scheme: Scheme) -> Result<Self> {
        let (home, name) = (inner.home_of(name), name.to_owned());
        let scheme = shown(&scheme);
        let errand = Errand::Create {
            name: name.clone(),
            scheme: scheme.clone(),
        };
        inner.run(home, errand).await.map_err(Error::Answer)?;
        let service = Arc::new(service(name, scheme));
        Ok(Self { inner, service })
    }

    /// The slot that holds a key.
    pub async fn slot(&self, key: SlotKey<'_>) -> Result<Slot> {
        let partitions = self.inner.partitions();
        let slot = self.service.slot(key)?;
        let replica = self
            .inner
            .replica(self.service.partition(slot, partitions))
            .await?;
        let state = self.service.state(&replica, slot)?;
        Ok(Slot::new(replica, state))
    }
}

impl Inner {
    /// The collections of a partition of the main space.
    pub(super) async fn replica(&self, index: u16) -> Result<Replica> {
        let partition = Partition::new(self.runtime.space().number, index);
        Ok(self.own.replicas.of(partition).await?)
    }
}

//! One partition of a service of collections.

use steadfast_collections::schema::{Key, Record};
use steadfast_collections::{
    Attempt, Conclusion, ConcurrentQueue, Dictionary, Log, Queue, Replica, Result, State,
};

/// The collections of one partition of a service. Clones are the same partition.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let node = steadfast::Node::builder().memory().start().await?;
/// let shop = node.singleton("shop").await?;
/// let stock = shop.dictionary::<String, u64>("stock").await?;
/// let orders = shop.queue::<String>("orders").await?;
/// let is_ordered = shop.transact(async |mut tx| {
///     if !stock.update(&mut tx, "apples", |count| count - 1).await? {
///         return Ok(tx.roll_back(false));
///     }
///     orders.enqueue(&mut tx, "apples").await?;
///     tx.commit(true).await
/// });
/// assert!(!is_ordered.await?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ServicePartition {
    replica: Replica,
    state: State,
    incarnation: u64,
}

impl ServicePartition {
    pub(super) fn new(replica: Replica, state: State, incarnation: u64) -> Self {
        Self {
            replica,
            state,
            incarnation,
        }
    }

    /// The dictionary of this name; created if there is none.
    pub async fn dictionary<K: Key, V: Record>(&self, name: &str) -> Result<Dictionary<K, V>> {
        self.state.get_or_add(name).await
    }

    /// The queue of this name; created if there is none.
    pub async fn queue<V: Record>(&self, name: &str) -> Result<Queue<V>> {
        self.state.get_or_add(name).await
    }

    /// The concurrent queue of this name; created if there is none.
    pub async fn concurrent_queue<V: Record>(&self, name: &str) -> Result<ConcurrentQueue<V>> {
        self.state.get_or_add(name).await
    }

    /// The log of this name; created if there is none.
    pub async fn log<V: Record>(&self, name: &str) -> Result<Log<V>> {
        self.state.get_or_add(name).await
    }

    /// Calls `work` with a transaction that it commits or rolls back, and calls it again
    /// after transient errors, such as lock time-outs, in a new transaction. When this
    /// returns, the transaction is durable. See [`Replica::transact`].
    pub async fn transact<T, F, A>(&self, work: F) -> Result<T>
    where
        F: FnMut(Attempt) -> A,
        A: Future<Output = Result<Conclusion<T>>>,
    {
        self.replica.transact(work).await
    }

    /// In a volatile service, a number that grows whenever the partition's state is lost;
    /// otherwise 0.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Its collections, by name: to list, create and remove them.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The replica, on which transactions begin that are not retried
    /// ([`begin`](Replica::begin)).
    pub fn replica(&self) -> &Replica {
        &self.replica
    }
}

//! One slot of a service of collections.

use steadfast_collections::{Replica, State, TransactionFuture};

/// The collections of one slot of a service.
#[derive(Clone)]
pub struct Slot {
    replica: Replica,
    state: State,
    incarnation: u64,
}

impl Slot {
    pub(super) fn new(replica: Replica, state: State, incarnation: u64) -> Self {
        Self {
            replica,
            state,
            incarnation,
        }
    }

    /// In a volatile service, a number that grows whenever the slot's state is lost; otherwise 0.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Its collections.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The replica that transactions begin on.
    pub fn replica(&self) -> &Replica {
        &self.replica
    }

    /// Executes the closure in a transaction and commits it, retrying transient errors such
    /// as lock time-outs. When it returns, the transaction is durable.
    pub async fn run<T, F>(&self, work: F) -> steadfast_collections::Result<T>
    where
        F: for<'t> FnMut(&'t mut steadfast_collections::Tx<'static>) -> TransactionFuture<'t, T>,
    {
        self.replica.run(work).await
    }
}

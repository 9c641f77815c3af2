//! One slot of a service of collections.

use steadfast_collections::{Replica, State, Work};

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

    /// Of a volatile service: grows whenever the slot's state was lost. Otherwise 0.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

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

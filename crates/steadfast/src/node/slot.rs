//! One slot of a service of collections.

use steadfast_collections::{Replica, State, Work};

/// The collections of one slot of a service.
#[derive(Clone)]
pub struct Slot {
    replica: Replica,
    state: State,
}

impl Slot {
    pub(super) fn new(replica: Replica, state: State) -> Self {
        Self { replica, state }
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

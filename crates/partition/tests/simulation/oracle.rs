//! Sees everything, and notices what must not happen.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use steadfast_core::id::{Epoch, Partition};
use steadfast_storage::engine::Entry;

use crate::story::ops_in;

/// One life of one node.
pub(crate) type Life = u64;

#[derive(Default)]
pub(crate) struct Oracle {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Operations that some commit holds.
    durable: BTreeSet<u64>,
    /// Operations whose callers were told that they are done.
    acknowledged: BTreeSet<u64>,
    /// Who has committed in an epoch.
    owners: BTreeMap<(Partition, Epoch), Life>,
    /// The newest epoch of a partition.
    epochs: BTreeMap<Partition, Epoch>,
    violations: Vec<String>,
    effects: u64,
}

impl Oracle {
    /// An entry was committed.
    pub(crate) fn committed(&self, life: Life, entry: &Entry) {
        let mut state = self.state.lock();
        let place = (entry.partition, entry.epoch);
        let owner = *state.owners.entry(place).or_insert(life);
        if owner != life {
            let (partition, epoch) = place;
            let what = format!("{partition} was written by {owner} and {life} in epoch {epoch}");
            state.violations.push(what);
        }
        state.durable.extend(ops_in(&entry.body));
    }

    /// A partition was assigned to an owner.
    pub(crate) fn granted(&self, partition: Partition, epoch: Epoch) {
        self.state.lock().epochs.insert(partition, epoch);
    }

    /// Whether a later owner has the partition.
    pub(crate) fn is_stale(&self, partition: Partition, epoch: Epoch) -> bool {
        let state = self.state.lock();
        state
            .epochs
            .get(&partition)
            .is_some_and(|newest| epoch < *newest)
    }

    /// Something is about to be seen outside that depends on an operation.
    pub(crate) fn leaves(&self, what: &str, op: u64) {
        let mut state = self.state.lock();
        state.effects += 1;
        if !state.durable.contains(&op) {
            let what = format!("{what} of operation {op} left before its commit");
            state.violations.push(what);
        }
    }

    /// A caller was told that its operation is done.
    pub(crate) fn acknowledged(&self, op: u64) {
        self.leaves("the reply", op);
        self.state.lock().acknowledged.insert(op);
    }

    pub(crate) fn first_violation(&self) -> Option<String> {
        self.state.lock().violations.first().cloned()
    }

    pub(crate) fn all_acknowledged(&self) -> BTreeSet<u64> {
        self.state.lock().acknowledged.clone()
    }

    pub(crate) fn effects(&self) -> u64 {
        self.state.lock().effects
    }
}

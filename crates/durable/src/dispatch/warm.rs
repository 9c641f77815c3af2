//! States of entities that were committed on this node.
//!
//! All task hubs of a node share one bound in bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::sync::Cache;
use quick_cache::{Equivalent, Weighter};
use steadfast_core::id::Epoch;
use steadfast_core::limits;

/// A state that was committed here.
#[derive(Clone)]
pub(crate) struct Warm {
    pub(crate) epoch: Epoch,
    /// The generation that the entity has with this state.
    pub(crate) version: u64,
    pub(crate) state: Option<Arc<str>>,
}

/// The states of all task hubs. Clones are the same.
#[derive(Clone)]
pub(super) struct SharedStates(Arc<Shared>);

struct Shared {
    cache: Cache<Key, Warm, Weight>,
    hubs: AtomicU64,
}

/// The states of one task hub.
pub(super) struct States {
    shared: SharedStates,
    hub: u64,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    hub: u64,
    entity: Box<str>,
}

/// A key that owns nothing; both have the same hash.
#[derive(Hash)]
struct KeyRef<'a> {
    hub: u64,
    entity: &'a str,
}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.hub == key.hub && *self.entity == *key.entity
    }
}

#[derive(Clone)]
struct Weight;

impl Weighter<Key, Warm> for Weight {
    fn weight(&self, key: &Key, warm: &Warm) -> u64 {
        let state = warm.state.as_ref().map_or(0, |state| state.len());
        (key.entity.len() + state + 128) as u64
    }
}

impl SharedStates {
    /// As many states as fit into so many bytes.
    fn new(bytes: u64) -> Self {
        Self(Arc::new(Shared {
            // Few parts: what is larger than its part of the cache is never kept.
            cache: Cache::with_weighter(64, bytes, Weight),
            hubs: AtomicU64::new(0),
        }))
    }

    /// The states of a task hub that had none before.
    pub(super) fn hub(&self) -> States {
        States {
            shared: self.clone(),
            hub: self.0.hubs.fetch_add(1, Ordering::Relaxed),
        }
    }
}

impl Default for SharedStates {
    fn default() -> Self {
        Self::new(limits::WARM_STATES_BYTES)
    }
}

impl States {
    pub(super) fn get(&self, entity: &str) -> Option<Warm> {
        let hub = self.hub;
        self.shared.0.cache.get(&KeyRef { hub, entity })
    }

    pub(super) fn insert(&self, entity: &str, warm: Warm) {
        let key = Key {
            hub: self.hub,
            entity: entity.into(),
        };
        self.shared.0.cache.insert(key, warm);
    }

    pub(super) fn remove(&self, entity: &str) {
        let hub = self.hub;
        self.shared.0.cache.remove(&KeyRef { hub, entity });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(bytes: usize) -> Warm {
        Warm {
            epoch: Epoch(1),
            version: 1,
            state: Some("x".repeat(bytes).into()),
        }
    }

    #[test]
    fn states_of_all_task_hubs_stay_within_one_bound_in_memory() {
        const BOUND: u64 = 4 << 20;
        let shared = SharedStates::new(BOUND);
        let hubs = [(); 8].map(|()| shared.hub());
        let measured = allocation_counter::measure(|| {
            for number in 0..4_000usize {
                let hub = &hubs[number % hubs.len()];
                hub.insert(&format!("@e@{number}"), state(1000 + number % 9000));
            }
        });
        let has = measured.bytes_current;
        assert!(has < BOUND as i64 + (1 << 20), "{has} bytes");
        assert!(has > BOUND as i64 / 2, "{has} bytes: nothing is kept");
        let last = "@e@3999";
        assert!(hubs[3999 % 8].get(last).is_some());
        assert!(hubs[0].get(last).is_none(), "it is of another task hub");
        hubs[3999 % 8].remove(last);
        assert!(hubs[3999 % 8].get(last).is_none());
    }
}

//! A cache of entity states committed on this node.

use std::sync::Arc;

use steadfast_core::id::Epoch;
use steadfast_core::limits;

use super::hub_cache::{CacheWeight, HubCache, HubCaches};

/// An entity state that was committed here.
#[derive(Clone)]
pub(crate) struct CachedState {
    pub(crate) epoch: Epoch,
    /// The generation that the entity has with this state.
    pub(crate) version: u64,
    pub(crate) state: Option<Arc<str>>,
}

impl CacheWeight for CachedState {
    fn bytes(&self) -> usize {
        self.state.as_ref().map_or(0, |state| state.len())
    }
}

/// The states of all task hubs.
pub(super) type SharedStates = HubCaches<CachedState>;

/// The states of one task hub, by entity.
pub(super) type States = HubCache<CachedState>;

/// An empty cache.
pub(super) fn states() -> SharedStates {
    HubCaches::new(limits::WARM_STATES_BYTES, limits::WARM_STATES_HUB_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(bytes: usize) -> CachedState {
        CachedState {
            epoch: Epoch(1),
            version: 1,
            state: Some("x".repeat(bytes).into()),
        }
    }

    #[test]
    fn a_task_hub_with_many_states_leaves_those_of_another_warm() {
        let shared = states();
        let (small, greedy) = (shared.hub(), shared.hub());
        small.insert(b"@counter@1", state(1_000));
        let measured = allocation_counter::measure(|| {
            for number in 0..80 {
                greedy.insert(format!("@e@{number}").as_bytes(), state(1_000_000));
            }
        });
        assert!(small.get(b"@counter@1").is_some(), "it was pushed out");
        assert!(greedy.get(b"@counter@1").is_none(), "it is of another hub");
        let has = measured.bytes_current;
        let share = limits::WARM_STATES_HUB_BYTES as i64;
        assert!(has < share + (1 << 20), "{has} bytes");
        assert!(has > share / 2, "{has} bytes: nothing is kept");
    }
}

//! A cache of recently read histories.
//!
//! Their bounds count what the decoded events take in memory: small events take ten
//! times what they have in storage.

use std::mem::size_of;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use steadfast_core::limits;

use super::hub_cache::{CacheWeight, HubCache, HubCaches};
use crate::event::InstanceEvent;

/// Recently read histories of one task hub.
pub(super) struct Histories {
    cache: HubCache<Arc<CachedHistory>>,
    /// The number of rows read and decoded.
    pub(super) read: AtomicU64,
}

/// The histories of all task hubs.
pub(super) type SharedHistories = HubCaches<Arc<CachedHistory>>;

/// An empty cache.
pub(super) fn histories() -> SharedHistories {
    HubCaches::new(limits::HISTORY_CACHE_BYTES, limits::HISTORY_CACHE_HUB_BYTES)
}

/// The committed events of an execution, as far as they were read.
#[derive(Clone, Default)]
pub(super) struct CachedHistory {
    pub(super) execution: String,
    pub(super) rewrites: u64,
    pub(super) turns: Vec<Arc<Vec<InstanceEvent>>>,
    /// Its bytes in storage.
    pub(super) bytes: u64,
    /// Its approximate bytes in memory.
    memory: u64,
}

impl CachedHistory {
    /// Adds the events of a row of `bytes` bytes.
    pub(super) fn push(&mut self, events: Vec<InstanceEvent>, bytes: usize) {
        let texts: usize = events.iter().map(InstanceEvent::size).sum();
        let events_bytes = events.capacity() * size_of::<InstanceEvent>();
        self.bytes += bytes as u64;
        self.memory += (texts + events_bytes + AROUND) as u64;
        self.turns.push(Arc::new(events));
    }
}

/// The overhead of a history, and of each of its rows, in bytes.
const AROUND: usize = 64;

impl CacheWeight for Arc<CachedHistory> {
    fn bytes(&self) -> usize {
        self.execution.len() + 2 * AROUND + self.memory as usize
    }
}

impl Histories {
    pub(super) fn new(shared: &SharedHistories) -> Self {
        Self {
            cache: shared.hub(),
            read: AtomicU64::new(0),
        }
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<Arc<CachedHistory>> {
        self.cache.get(key)
    }

    pub(super) fn keep(&self, key: &[u8], history: &Arc<CachedHistory>) {
        self.cache.insert(key, Arc::clone(history));
    }

    /// Removes the history of an execution that has ended.
    pub(super) fn forget(&self, key: &[u8]) {
        self.cache.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventKind;
    use crate::moment::Moment;

    #[test]
    fn histories_of_all_task_hubs_stay_within_their_bound_in_memory() {
        const BOUND: u64 = 4 << 20;
        let small = || InstanceEvent::plain(Moment::default(), EventKind::TurnStarted);
        let large = || {
            let input = Some("x".repeat(10_000));
            let name = "e".to_owned();
            InstanceEvent::plain(Moment::default(), EventKind::EventRaised { name, input })
        };
        let shared = SharedHistories::new(BOUND, BOUND / 2);
        let hubs = [(); 4].map(|()| Histories::new(&shared));
        let measured = allocation_counter::measure(|| {
            for number in 0..2_000u32 {
                let mut history = CachedHistory::default();
                history.push((0..100).map(|_| small()).collect(), 400);
                history.push((0..number % 3).map(|_| large()).collect(), 30_000);
                let key = format!("hub {} instance {number}", number % 4);
                let hub = &hubs[number as usize % 4];
                hub.keep(key.as_bytes(), &Arc::new(history));
            }
        });
        let most = BOUND as i64 + (1 << 20);
        let has = measured.bytes_current;
        assert!(has < most, "{has} bytes for a bound of {BOUND}");
        assert!(has > BOUND as i64 / 2, "{has} bytes: nothing is kept");
        let last = b"hub 3 instance 1999";
        assert!(hubs[3].get(last).is_some());
        hubs[3].forget(last);
        assert!(hubs[3].get(last).is_none());
    }

    #[test]
    fn a_task_hub_with_long_histories_leaves_those_of_another() {
        let shared = histories();
        let (small, greedy) = (Histories::new(&shared), Histories::new(&shared));
        let history = |memory| {
            Arc::new(CachedHistory {
                memory,
                ..CachedHistory::default()
            })
        };
        small.keep(b"one", &history(1_000));
        for number in 0..100 {
            greedy.keep(format!("{number}").as_bytes(), &history(1 << 20));
        }
        assert!(small.get(b"one").is_some(), "it was pushed out");
        let kept = |number: &u64| greedy.get(format!("{number}").as_bytes()).is_some();
        let kept = (0..100).filter(kept).count() as u64;
        let share = limits::HISTORY_CACHE_HUB_BYTES >> 20;
        assert!(kept < share && kept > share / 2, "{kept} of {share}");
    }
}

//! A cache that is divided among task hubs.
//!
//! A task hub keeps at most its share. While all task hubs together exceed their bound,
//! the fullest one evicts first: no task hub loses entries to a fuller one.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// A value whose memory is counted.
pub(super) trait CacheWeight: Clone {
    /// Approximate bytes of the value beside its table entry.
    fn bytes(&self) -> usize;
}

/// The overhead of an entry beside its key and value: its places in the table and in the
/// queue, which have spare capacity, and the reference counts of its key.
const AROUND: usize = 256;

/// One eviction frees this part of the bound, so that few inserts scan all caches.
const EVICTED_PART: u64 = 32;

/// The caches of all task hubs. Clones share one state.
pub(super) struct HubCaches<V>(Arc<SharedCaches<V>>);

struct SharedCaches<V> {
    bound: u64,
    share: u64,
    /// Bytes in all caches.
    bytes: AtomicU64,
    caches: Mutex<CacheRegistry<V>>,
}

struct CacheRegistry<V> {
    next: u64,
    caches: HashMap<u64, Arc<Mutex<CacheEntries<V>>>>,
}

/// The cache of one task hub.
pub(super) struct HubCache<V: CacheWeight> {
    shared: Arc<SharedCaches<V>>,
    id: u64,
    entries: Arc<Mutex<CacheEntries<V>>>,
}

struct CacheEntries<V> {
    bytes: u64,
    table: HashMap<Arc<[u8]>, Entry<V>>,
    /// Keys, the oldest first; some of them may have been removed.
    queue: VecDeque<Arc<[u8]>>,
}

struct Entry<V> {
    value: V,
    bytes: u64,
    /// It was read since it came to the end of the queue.
    is_used: bool,
}

impl<V: CacheWeight> HubCaches<V> {
    /// Caches of at most `bound` bytes in all and `share` bytes per task hub.
    pub(super) fn new(bound: u64, share: u64) -> Self {
        let registry = CacheRegistry {
            next: 0,
            caches: HashMap::new(),
        };
        Self(Arc::new(SharedCaches {
            bound,
            share,
            bytes: AtomicU64::new(0),
            caches: Mutex::new(registry),
        }))
    }

    /// An empty cache for a task hub.
    pub(super) fn hub(&self) -> HubCache<V> {
        let entries = Arc::new(Mutex::new(CacheEntries {
            bytes: 0,
            table: HashMap::new(),
            queue: VecDeque::new(),
        }));
        let mut registry = self.0.caches.lock();
        let id = registry.next;
        registry.next += 1;
        registry.caches.insert(id, Arc::clone(&entries));
        HubCache {
            shared: Arc::clone(&self.0),
            id,
            entries,
        }
    }

    /// Bytes in all caches.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }
}

impl<V> Clone for HubCaches<V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<V: CacheWeight> SharedCaches<V> {
    /// Evicts from the fullest caches until there is room.
    fn make_room(&self) {
        let registry = self.caches.lock();
        let kept = || self.bytes.load(Ordering::Relaxed);
        if kept() <= self.bound {
            return;
        }
        let low = self.bound - self.bound / EVICTED_PART;
        while kept() > low {
            let weigh = |entries: &&Arc<Mutex<CacheEntries<V>>>| entries.lock().bytes;
            let Some(fullest) = registry.caches.values().max_by_key(weigh) else {
                return;
            };
            let mut entries = fullest.lock();
            let most = (entries.bytes / 8).max(1);
            let freed = (kept().saturating_sub(low)).min(most);
            let target = entries.bytes.saturating_sub(freed);
            let evicted = entries.evict(target, self);
            drop(entries);
            if evicted.is_empty() {
                return;
            }
        }
    }
}

impl<V: CacheWeight> HubCache<V> {
    pub(super) fn get(&self, key: &[u8]) -> Option<V> {
        let mut entries = self.entries.lock();
        let entry = entries.table.get_mut(key)?;
        entry.is_used = true;
        Some(entry.value.clone())
    }

    /// Stores a value, unless it is larger than the share; replaces an older one.
    pub(super) fn insert(&self, key: &[u8], value: V) {
        let bytes = (key.len() + value.bytes() + AROUND) as u64;
        let share = self.shared.share;
        if bytes > share {
            return self.remove(key);
        }
        let mut entries = self.entries.lock();
        let older = entries.insert(key, value, bytes, &self.shared);
        let evicted = entries.evict(share, &self.shared);
        drop(entries);
        drop((older, evicted));
        if self.shared.bytes.load(Ordering::Relaxed) > self.shared.bound {
            self.shared.make_room();
        }
    }

    pub(super) fn remove(&self, key: &[u8]) {
        let mut entries = self.entries.lock();
        let removed = entries.table.remove(key);
        if let Some(entry) = &removed {
            entries.uncount(entry.bytes, &self.shared);
        }
        entries.tidy();
        drop(entries);
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> u64 {
        self.entries.lock().bytes
    }
}

impl<V: CacheWeight> Drop for HubCache<V> {
    fn drop(&mut self) {
        self.shared.caches.lock().caches.remove(&self.id);
        let mut entries = self.entries.lock();
        let bytes = entries.bytes;
        entries.uncount(bytes, &self.shared);
    }
}

impl<V: CacheWeight> CacheEntries<V> {
    /// Returns the previous value of the key.
    fn insert(&mut self, key: &[u8], value: V, bytes: u64, shared: &SharedCaches<V>) -> Option<V> {
        self.bytes += bytes;
        shared.bytes.fetch_add(bytes, Ordering::Relaxed);
        if let Some(entry) = self.table.get_mut(key) {
            let older = std::mem::replace(&mut entry.value, value);
            let older_bytes = std::mem::replace(&mut entry.bytes, bytes);
            entry.is_used = true;
            self.uncount(older_bytes, shared);
            return Some(older);
        }
        let key: Arc<[u8]> = key.into();
        let entry = Entry {
            value,
            bytes,
            is_used: false,
        };
        self.table.insert(Arc::clone(&key), entry);
        self.queue.push_back(key);
        None
    }

    /// Removes the oldest entries that were not read recently until at most `target` bytes
    /// are left.
    fn evict(&mut self, target: u64, shared: &SharedCaches<V>) -> Vec<V> {
        let mut evicted = Vec::new();
        while self.bytes > target {
            let Some(key) = self.queue.pop_front() else {
                break;
            };
            if !is_current(&self.table, &key) {
                continue;
            }
            let Some(entry) = self.table.get_mut(&key) else {
                continue;
            };
            if std::mem::take(&mut entry.is_used) {
                self.queue.push_back(key);
                continue;
            }
            if let Some(entry) = self.table.remove(&key) {
                self.uncount(entry.bytes, shared);
                evicted.push(entry.value);
            }
        }
        if !evicted.is_empty() {
            self.tidy();
        }
        evicted
    }

    fn uncount(&mut self, bytes: u64, shared: &SharedCaches<V>) {
        self.bytes -= bytes;
        shared.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Releases the capacity of removed entries.
    fn tidy(&mut self) {
        let few = self.table.len() + 16;
        if self.queue.len() > 2 * few {
            let table = &self.table;
            self.queue.retain(|key| is_current(table, key));
        }
        if self.table.capacity() > 3 * few {
            self.table.shrink_to(few + few / 2);
        }
        if self.queue.capacity() > 3 * few {
            self.queue.shrink_to(few + few / 2);
        }
    }
}

/// Whether a key of the queue belongs to a current entry, not to a removed one.
fn is_current<V>(table: &HashMap<Arc<[u8]>, Entry<V>>, key: &Arc<[u8]>) -> bool {
    let current = table.get_key_value(key);
    current.is_some_and(|(current, _)| Arc::ptr_eq(current, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[derive(Clone)]
    struct Text(Arc<str>);

    impl CacheWeight for Text {
        fn bytes(&self) -> usize {
            self.0.len()
        }
    }

    fn text(bytes: usize) -> Text {
        Text("x".repeat(bytes).into())
    }

    fn fill(hub: &HubCache<Text>, entries: usize, bytes: usize) {
        for number in 0..entries {
            hub.insert(format!("key {number}").as_bytes(), text(bytes));
        }
    }

    fn counted(hubs: &[HubCache<Text>]) -> u64 {
        hubs.iter().map(HubCache::bytes).sum()
    }

    #[test]
    fn a_task_hub_that_fills_its_share_pushes_out_no_entry_of_another() {
        let all = HubCaches::new(4 * MIB, 2 * MIB);
        let (small, greedy) = (all.hub(), all.hub());
        fill(&small, 100, 10_000);
        fill(&greedy, 2_000, 10_000);
        for number in 0..100 {
            let key = format!("key {number}");
            assert!(small.get(key.as_bytes()).is_some(), "{key} is gone");
        }
        assert!(greedy.bytes() <= 2 * MIB, "{}", greedy.bytes());
        assert!(greedy.bytes() > 2 * MIB - 20_000, "{}", greedy.bytes());
        assert!(greedy.get(b"key 1999").is_some(), "the newest is kept");
        assert!(greedy.get(b"key 0").is_none(), "the oldest is not");
    }

    #[test]
    fn the_fullest_task_hubs_give_up_entries_when_all_are_over_their_bound() {
        let all = HubCaches::new(4 * MIB, 2 * MIB);
        let small = all.hub();
        fill(&small, 50, 10_000);
        let greedy = [(); 5].map(|()| all.hub());
        for hub in &greedy {
            fill(hub, 2_000, 10_000);
            assert!(all.bytes() <= 4 * MIB, "{}", all.bytes());
        }
        assert!(all.bytes() > 3 * MIB, "{}: nothing is kept", all.bytes());
        for number in 0..50 {
            let key = format!("key {number}");
            assert!(small.get(key.as_bytes()).is_some(), "{key} is gone");
        }
        for hub in &greedy {
            assert!(hub.bytes() > MIB / 4, "{}", hub.bytes());
        }
        assert_eq!(all.bytes(), counted(&greedy) + small.bytes());
    }

    #[test]
    fn entries_that_are_read_outlive_those_that_are_not() {
        let all = HubCaches::new(4 * MIB, MIB);
        let hub = all.hub();
        hub.insert(b"read", text(1_000));
        hub.insert(b"unread", text(1_000));
        for number in 0..5_000 {
            assert!(hub.get(b"read").is_some(), "gone at {number}");
            hub.insert(format!("key {number}").as_bytes(), text(1_000));
        }
        assert!(hub.get(b"unread").is_none());
    }

    #[test]
    fn what_is_counted_follows_replaced_removed_and_oversized_entries_and_gone_task_hubs() {
        let all = HubCaches::new(4 * MIB, 2 * MIB);
        let hubs = [(); 3].map(|()| all.hub());
        for (number, hub) in hubs.iter().enumerate() {
            fill(hub, 100 * (number + 1), 1_000);
        }
        assert_eq!(all.bytes(), counted(&hubs));
        let [first, second, third] = hubs;
        first.insert(b"key 1", text(50_000));
        first.insert(b"key 1", text(10));
        first.insert(b"key 2", text(3 * MIB as usize));
        assert!(first.get(b"key 2").is_none(), "the older one is gone too");
        first.remove(b"key 3");
        first.remove(b"key 3");
        let of_first = first.bytes();
        let expected = HubCaches::new(4 * MIB, 2 * MIB).hub();
        fill(&expected, 1, 1_000);
        expected.insert(b"key 1", text(10));
        for number in 4..100 {
            expected.insert(format!("key {number}").as_bytes(), text(1_000));
        }
        assert_eq!(of_first, expected.bytes());
        drop(second);
        assert_eq!(all.bytes(), of_first + third.bytes());
        drop(third);
        assert_eq!(all.bytes(), of_first);
        drop(first);
        assert_eq!(all.bytes(), 0);
        assert!(all.0.caches.lock().caches.is_empty());
    }

    #[test]
    fn both_bounds_hold_in_memory_for_small_and_large_entries() {
        for bytes in [0, 100, 5_000] {
            let all = HubCaches::new(4 * MIB, 2 * MIB);
            let hubs = [(); 4].map(|()| all.hub());
            let measured = allocation_counter::measure(|| fill(&hubs[0], 50_000, bytes));
            let has = measured.bytes_current;
            assert!(has < 2 * MIB as i64 + 100_000, "{has} bytes of {bytes}");
            let measured = allocation_counter::measure(|| {
                hubs[1..].iter().for_each(|hub| fill(hub, 50_000, bytes));
            });
            let has = has + measured.bytes_current;
            assert!(has < 4 * MIB as i64 + 100_000, "{has} bytes of {bytes}");
            assert!(has > MIB as i64, "{has} bytes of {bytes}: nothing is kept");
        }
    }

    #[test]
    fn entries_that_come_and_go_leave_nothing_behind() {
        let all = HubCaches::new(4 * MIB, 2 * MIB);
        let hub = all.hub();
        let measured = allocation_counter::measure(|| {
            for number in 0..100_000 {
                let key = format!("key {number}");
                hub.insert(key.as_bytes(), text(10));
                hub.remove(key.as_bytes());
            }
        });
        let has = measured.bytes_current;
        assert!(has < 10_000, "{has} bytes");
        assert_eq!(all.bytes(), 0);
    }
}

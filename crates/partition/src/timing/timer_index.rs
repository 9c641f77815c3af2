//! The index of timers in memory.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hasher};

use bytes::Bytes;

/// Timers by key, which begins with the due time.
#[derive(Default)]
pub(crate) struct TimerIndex {
    by_key: BTreeMap<Bytes, Bytes>,
    /// Timers per address, by the hash of the address: a burst checks often whether a
    /// timer is the only one of its address, and the check needs no scan. Two
    /// addresses with one hash count as one that has several.
    of_address: HashMap<u64, u32>,
}

impl TimerIndex {
    pub(crate) fn insert(&mut self, key: Bytes, body: Bytes) {
        let address = address_of(&key);
        if self.by_key.insert(key, body).is_none() {
            *self.of_address.entry(address).or_default() += 1;
        }
    }

    /// Removes a timer and answers it with its key.
    pub(crate) fn remove(&mut self, key: &Bytes) -> Option<(Bytes, Bytes)> {
        let removed = self.by_key.remove_entry(key)?;
        self.uncount(address_of(key));
        Some(removed)
    }

    /// The key of the first timer.
    pub(crate) fn first(&self) -> Option<&Bytes> {
        self.by_key.first_key_value().map(|(key, _)| key)
    }

    /// The key of the last timer before `end`.
    pub(crate) fn last_before(&self, end: Bytes) -> Option<&Bytes> {
        self.by_key.range(..end).next_back().map(|(key, _)| key)
    }

    /// Whether the address of a timer has no other one.
    pub(crate) fn is_only_one(&self, key: &Bytes) -> bool {
        self.of_address.get(&address_of(key)) == Some(&1)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Keeps `count` timers; answers the key of the first one that was dropped.
    pub(crate) fn truncate(&mut self, count: usize) -> Option<Bytes> {
        let first = self.by_key.keys().nth(count).cloned()?;
        for key in self.by_key.split_off(&first).into_keys() {
            self.uncount(address_of(&key));
        }
        Some(first)
    }

    fn uncount(&mut self, address: u64) {
        if let Some(count) = self.of_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.of_address.remove(&address);
            }
        }
    }
}

/// The hash of the address in a timer's key.
fn address_of(key: &[u8]) -> u64 {
    let address = key.get(8..key.len().saturating_sub(8));
    let mut hasher = DefaultHasher::new();
    hasher.write(address.unwrap_or_default());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A timer of an address of one letter.
    fn key(due: u64, address: u8, tag: u64) -> Bytes {
        let mut key = due.to_be_bytes().to_vec();
        key.push(address);
        key.extend_from_slice(&tag.to_be_bytes());
        key.into()
    }

    #[test]
    fn an_address_is_counted_however_its_timers_come_and_go() {
        let mut near = TimerIndex::default();
        near.insert(key(1, b'a', 0), Bytes::new());
        near.insert(key(1, b'a', 0), Bytes::new());
        near.insert(key(2, b'b', 0), Bytes::new());
        assert!(near.is_only_one(&key(1, b'a', 0)));
        near.insert(key(3, b'a', 1), Bytes::new());
        assert!(!near.is_only_one(&key(1, b'a', 0)));
        assert!(near.remove(&key(9, b'a', 0)).is_none());
        assert_eq!(near.truncate(2), Some(key(3, b'a', 1)));
        assert!(near.is_only_one(&key(1, b'a', 0)));
        assert!(near.remove(&key(1, b'a', 0)).is_some());
        assert!(near.remove(&key(2, b'b', 0)).is_some());
        assert!(near.of_address.is_empty());
    }
}

//! The worker that had each instance last.
//!
//! That worker may have the instance in memory, so it is preferred. An affinity ends when
//! its worker disconnects or when it was not used for a while.

use std::collections::HashMap;

use steadfast_core::limits;

use super::entry::Key;

#[derive(Default)]
pub(super) struct Affinity {
    /// Used since the last check.
    recent: HashMap<Key, u64>,
    /// Used before that.
    older: HashMap<Key, u64>,
    /// Whether a task removes old entries.
    is_watched: bool,
}

impl Affinity {
    /// The worker that had an instance last.
    pub(super) fn get(&self, key: &Key) -> Option<&u64> {
        self.recent.get(key).or_else(|| self.older.get(key))
    }

    /// Records which worker has an instance now; returns the previous one.
    pub(super) fn insert(&mut self, key: Key, seat: u64) -> Option<u64> {
        if self.recent.len() >= limits::HABITS / 2 {
            self.older = std::mem::take(&mut self.recent);
        }
        let older = self.older.remove(&key);
        self.recent.insert(key, seat).or(older)
    }

    pub(super) fn remove(&mut self, key: &Key) {
        self.recent.remove(key);
        self.older.remove(key);
    }

    /// Removes a worker.
    pub(super) fn remove_worker(&mut self, seat: u64) {
        for habits in [&mut self.recent, &mut self.older] {
            habits.retain(|_, own| *own != seat);
            habits.shrink_to_fit();
        }
    }

    /// Marks the clean-up task as running; returns whether it has to be started.
    pub(super) fn begin_watch(&mut self) -> bool {
        !std::mem::replace(&mut self.is_watched, true)
    }

    /// Removes entries that were not used since the last check; returns whether any are
    /// left. If not, the clean-up task ends.
    pub(super) fn age(&mut self) -> bool {
        self.older = std::mem::take(&mut self.recent);
        self.is_watched = !self.older.is_empty();
        self.is_watched
    }

    pub(super) fn is_empty(&self) -> bool {
        self.recent.is_empty() && self.older.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use steadfast_core::id::Partition;

    fn key(number: usize) -> Key {
        (Partition(0), Bytes::from(number.to_string()))
    }

    #[test]
    fn a_habit_that_is_used_stays_and_others_are_given_back() {
        let mut habits = Affinity::default();
        assert_eq!(habits.insert(key(1), 7), None);
        habits.insert(key(2), 7);
        assert!(habits.begin_watch() && !habits.begin_watch());
        assert!(habits.age());
        assert_eq!(habits.insert(key(1), 8), Some(7), "it is still known");
        assert!(habits.age());
        assert_eq!((habits.get(&key(1)), habits.get(&key(2))), (Some(&8), None));
        assert!(!habits.age() && habits.is_empty());
        assert!(habits.begin_watch(), "the watch has ended");
        assert_eq!(habits.recent.capacity() + habits.older.capacity(), 0);
    }

    #[test]
    fn habits_are_bounded_and_go_with_their_worker() {
        let mut habits = Affinity::default();
        for number in 0..3 * limits::HABITS {
            habits.insert(key(number), number as u64 % 2);
        }
        let count = habits.recent.len() + habits.older.len();
        assert!(count <= limits::HABITS, "{count}");
        habits.remove_worker(0);
        habits.remove_worker(1);
        assert!(habits.is_empty());
        assert_eq!(habits.recent.capacity() + habits.older.capacity(), 0);
    }
}

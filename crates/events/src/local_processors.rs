//! Processors that handle their own node's partitions.
//!
//! The effects of an exactly-once processor are part of commits of the partition that
//! it handles, and only the owner of a partition commits there. So in a cluster such
//! processors are not balanced by the group's plan: each handles the partitions that
//! its node owns, and several processors of one node divide these among themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;

/// The processors of this node: event hub and group to processor names.
#[derive(Default)]
pub(crate) struct LocalProcessors {
    groups: Mutex<BTreeMap<(u64, String), BTreeSet<String>>>,
}

/// The membership of one processor, which ends on drop.
pub(crate) struct LocalProcessor {
    followers: Arc<LocalProcessors>,
    group: (u64, String),
    name: String,
}

impl LocalProcessors {
    /// Adds a processor to a group.
    pub(crate) fn join(self: &Arc<Self>, group: (u64, String), name: &str) -> LocalProcessor {
        let mut groups = self.groups.lock();
        let own = groups.entry(group.clone()).or_default();
        own.insert(name.to_owned());
        LocalProcessor {
            followers: Arc::clone(self),
            group,
            name: name.to_owned(),
        }
    }
}

impl LocalProcessor {
    /// Whether this processor handles a partition that its node owns.
    pub(crate) fn is_for(&self, partition: u32) -> bool {
        let groups = self.followers.groups.lock();
        let Some(own) = groups.get(&self.group) else {
            return false;
        };
        let turn = partition as usize % own.len();
        own.iter().nth(turn) == Some(&self.name)
    }
}

impl Drop for LocalProcessor {
    fn drop(&mut self) {
        let mut groups = self.followers.groups.lock();
        if let Some(own) = groups.get_mut(&self.group) {
            own.remove(&self.name);
            if own.is_empty() {
                groups.remove(&self.group);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_partition_is_for_one_of_them() {
        let followers = Arc::new(LocalProcessors::default());
        let group = || (1, "g".to_owned());
        let one = followers.join(group(), "one");
        assert!((0..8).all(|partition| one.is_for(partition)));
        let other = followers.join(group(), "other");
        let stranger = followers.join((2, "g".to_owned()), "stranger");
        for partition in 0..8 {
            assert!(one.is_for(partition) != other.is_for(partition));
            assert!(stranger.is_for(partition));
        }
        drop(one);
        assert!((0..8).all(|partition| other.is_for(partition)));
    }
}

//! What the world makes of what its members do.
//!
//! Nothing here asks the code under test: versions, shares and times without an owner
//! are kept and worked out anew.

use steadfast_core::clock::Timestamp;
use steadfast_ownership::balance::{ConditionalWrite, Kind};
use steadfast_ownership::record::{OwnerId, PartitionIndex, RecordVersion};

use super::play::{State, World};

impl World {
    /// Counts a write that succeeded.
    pub(super) fn book(&mut self, action: &ConditionalWrite, before: &OwnerId, owner: &OwnerId) {
        let index = action.partition.0 as usize;
        let changed = !owner.is_empty() && before != owner;
        self.tally.moves += u64::from(changed);
        self.tally.adopted += u64::from(action.kind == Kind::Adopt);
        if action.kind == Kind::Claim {
            self.nobody_serves(action.partition, before);
        }
        let lives = self
            .by_id
            .get(owner)
            .is_some_and(|actor| self.lives(*actor));
        if !lives {
            // What the dead have sent still counts: the store cannot know better.
            self.ownerless_since[index] = Some(self.now_ms);
        } else if let Some(since) = self.ownerless_since[index].take() {
            let ownerless = self.now_ms - since;
            self.tally.ownerless_ms = self.tally.ownerless_ms.max(ownerless);
        }
    }

    /// A claim finds that the last owner has stopped by itself.
    fn nobody_serves(&mut self, partition: PartitionIndex, last: &OwnerId) {
        let Some(actor) = self.by_id.get(last) else {
            return;
        };
        let last = &mut self.actors[*actor];
        last.member.expire(Timestamp(self.now_ms));
        let serves = last.state == State::Alive && last.member.held().any(|held| held == partition);
        assert!(!serves, "{partition} is claimed while its owner serves");
    }

    /// How many records each living member has, and how many have expired or are of others.
    fn counts(&self) -> (Vec<u32>, u32) {
        let mut counts = vec![0; self.actors.len()];
        let mut orphans = 0;
        for partition in (0..self.store.partitions()).map(PartitionIndex) {
            let age = self.now_ms - self.store.modified(partition).0;
            let owner = self.by_id.get(self.store.owner(partition));
            match owner {
                Some(actor) if self.lives(*actor) && age < self.expiration_ms() => {
                    counts[*actor] += 1;
                }
                _ => orphans += 1,
            }
        }
        let living = self.living().into_iter().map(|actor| counts[actor]);
        (living.collect(), orphans)
    }

    /// All partitions have a living owner, and the counts differ by at most one.
    pub(crate) fn is_balanced(&self) -> bool {
        let (counts, orphans) = self.counts();
        let most = counts.iter().max().unwrap();
        let fewest = counts.iter().min().unwrap();
        orphans == 0 && most - fewest <= 1
    }

    /// The fewest moves that make it so.
    pub(crate) fn moves_needed(&self) -> u64 {
        let (mut counts, _) = self.counts();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let members = counts.len() as u32;
        let partitions = self.store.partitions();
        let share = |place: u32| partitions / members + u32::from(place < partitions % members);
        let lacks = |(place, count): (usize, &u32)| share(place as u32).saturating_sub(*count);
        counts.iter().enumerate().map(lacks).map(u64::from).sum()
    }

    /// Every partition is served by exactly one member, with the record's own version.
    pub(crate) fn check_at_rest(&mut self) {
        let mut served = vec![0; self.store.partitions() as usize];
        for actor in self.living() {
            let member = &self.actors[actor].member;
            for partition in member.held() {
                served[partition.0 as usize] += 1;
                assert_eq!(self.store.owner(partition), member.id(), "{partition}");
            }
        }
        assert!(served.iter().all(|servers| *servers == 1), "{served:?}");
        let unowned =
            |index: &u32| self.store.version(PartitionIndex(*index)) == RecordVersion::ABSENT;
        assert_eq!((0..self.store.partitions()).find(unowned), None);
    }

    /// Forgets how long partitions were without an owner until now.
    pub(crate) fn reset_ownerless(&mut self) {
        self.tally.ownerless_ms = 0;
    }

    /// The longest time without an owner, those included that still have none.
    pub(crate) fn ownerless_ms(&self) -> i64 {
        let open = self.ownerless_since.iter().flatten();
        let longest = open.map(|since| self.now_ms - since).max().unwrap_or(0);
        longest.max(self.tally.ownerless_ms)
    }
}

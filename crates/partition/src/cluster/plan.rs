//! The balancing plan: what a node acquires next.
//!
//! Pure: records in, actions out. The version of a partition is its epoch, so a plan
//! that was made from old records loses its race in the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use steadfast_core::clock::Timestamp;
use steadfast_core::id::{Epoch, Owner};
use steadfast_ownership::balance::{self, ConditionalWrite, Kind};
use steadfast_ownership::census::Census;
use steadfast_ownership::listing::OwnershipListing;
use steadfast_ownership::random::Random;
use steadfast_ownership::record::{OwnerId, PartitionIndex, RecordVersion};
use steadfast_ownership::strategy::{BalanceStep, GroupTiming};

/// A living node in a plan.
#[derive(Clone, Debug)]
pub(super) struct LiveNode {
    pub(super) owner: Owner,
    pub(super) is_leaving: bool,
    pub(super) serves: Vec<(u16, Epoch)>,
}

/// The input of the plan.
pub(super) struct PlanInput<'a> {
    pub(super) me: Owner,
    /// All living nodes, this one too.
    pub(super) living: &'a [LiveNode],
    pub(super) partitions: u16,
    /// Partitions that this node is acquiring already.
    pub(super) taking: &'a BTreeSet<u16>,
    /// Since when partitions have no owner.
    pub(super) idle: &'a BTreeMap<u16, Duration>,
    pub(super) now: Duration,
    pub(super) lease: Duration,
}

/// A partition to acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Acquisition {
    /// It has no owner.
    Free(u16),
    /// Its owner has more than its share and is asked to hand it over.
    From(u16, Owner, Epoch),
}

/// The partitions to acquire next.
pub(super) fn plan(scene: &PlanInput<'_>, random: &mut dyn Random) -> Vec<Acquisition> {
    let now = Timestamp(scene.now.as_millis() as i64);
    let mut listing = OwnershipListing::new(u32::from(scene.partitions));
    let (mut owners, mut busy) = (BTreeMap::new(), BTreeSet::new());
    let mut held: BTreeSet<PartitionIndex> = BTreeSet::new();
    for (index, since) in scene.idle {
        let since = Timestamp(since.as_millis() as i64);
        let index = PartitionIndex(u32::from(*index));
        listing.put(index, &OwnerId::empty(), RecordVersion(1), since);
    }
    for node in scene.living {
        let id = OwnerId::from(node.owner);
        for (index, epoch) in &node.serves {
            let place = PartitionIndex(u32::from(*index));
            if node.is_leaving {
                // It will be free, but cannot be acquired before its owner hands it
                // over.
                busy.insert(*index);
                listing.put(place, &OwnerId::empty(), RecordVersion(epoch.0), now);
                continue;
            }
            listing.put(place, &id, RecordVersion(epoch.0), now);
            owners.insert(*index, (node.owner, *epoch));
            if node.owner == scene.me {
                held.insert(place);
            }
        }
    }
    let taking = scene.taking.iter();
    held.extend(taking.map(|index| PartitionIndex(u32::from(*index))));
    let staying = scene.living.iter().filter(|node| !node.is_leaving);
    let members: Vec<_> = staying.map(|node| OwnerId::from(node.owner)).collect();
    let timing = GroupTiming::new(scene.lease / 3, scene.lease);
    let census = Census::with_members(listing, &members, now, &timing);
    let me = OwnerId::from(scene.me);
    let plan = balance::plan(&census, &me, &held, BalanceStep::Share, random);
    let takes = plan.actions.iter().filter_map(|action| {
        let ConditionalWrite {
            partition, kind, ..
        } = action;
        let index = partition.0 as u16;
        if busy.contains(&index) {
            return None;
        }
        Some(match (kind, owners.get(&index)) {
            (Kind::Steal { .. }, Some((from, epoch))) => Acquisition::From(index, *from, *epoch),
            _ => Acquisition::Free(index),
        })
    });
    takes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(10);

    fn owner(node: u32) -> Owner {
        Owner {
            node,
            incarnation: 1,
        }
    }

    fn node(number: u32, serves: impl IntoIterator<Item = u16>) -> LiveNode {
        LiveNode {
            owner: owner(number),
            is_leaving: false,
            serves: serves.into_iter().map(|index| (index, Epoch(1))).collect(),
        }
    }

    fn takes(me: u32, living: &[LiveNode], taking: &[u16]) -> Vec<Acquisition> {
        let scene = PlanInput {
            me: owner(me),
            living,
            partitions: 9,
            taking: &taking.iter().copied().collect(),
            idle: &BTreeMap::new(),
            now: Duration::from_secs(100),
            lease: LEASE,
        };
        plan(&scene, &mut |_| 0)
    }

    #[test]
    fn one_node_takes_everything_once() {
        let all: Vec<_> = (0..9).map(Acquisition::Free).collect();
        assert_eq!(takes(1, &[node(1, [])], &[]), all);
        let taking: Vec<_> = (0..9).collect();
        assert_eq!(takes(1, &[node(1, [])], &taking), []);
    }

    #[test]
    fn a_newcomer_asks_for_its_share_and_the_others_take_nothing() {
        let living = [node(1, 0..9), node(2, [])];
        assert_eq!(takes(1, &living, &[]), []);
        let asked = takes(2, &living, &[]);
        assert_eq!(asked.len(), 4);
        let is_asked = |take: &Acquisition| matches!(take, Acquisition::From(_, from, Epoch(1)) if *from == owner(1));
        assert!(asked.iter().all(is_asked), "{asked:?}");
    }

    #[test]
    fn what_a_dead_node_had_is_shared_out_and_nobody_takes_the_same() {
        let living = [node(1, 0..3), node(2, 3..6)];
        let (one, two) = (takes(1, &living, &[]), takes(2, &living, &[]));
        let mut all: Vec<_> = one.iter().chain(&two).collect();
        all.sort_by_key(|take| format!("{take:?}"));
        all.dedup();
        assert_eq!(all.len(), 3, "{one:?} {two:?}");
        assert_eq!(one.len() + two.len(), 3);
    }

    #[test]
    fn what_a_leaving_node_still_has_is_waited_for() {
        let mut leaving = node(3, 6..8);
        leaving.is_leaving = true;
        let living = [node(1, 0..3), node(2, 3..6), leaving];
        let all: BTreeSet<_> = [1, 2]
            .iter()
            .flat_map(|me| indexes(&takes(*me, &living, &[])))
            .collect();
        assert!(all.is_subset(&BTreeSet::from([8])), "{all:?}");
        assert_eq!(takes(3, &living, &[]), []);
    }

    fn indexes(takes: &[Acquisition]) -> Vec<u16> {
        let index = |take: &Acquisition| match take {
            Acquisition::Free(index) | Acquisition::From(index, ..) => *index,
        };
        takes.iter().map(index).collect()
    }
}

//! Decides which nodes are isolated.
//!
//! Pure. A node decides for itself and publishes it in its record; an isolated node has
//! no vote, and stays isolated until no node misses it any more. Not all nodes can be
//! isolated: where no group is larger than the others, every node keeps its partitions.

use steadfast_core::id::Owner;

/// A node is isolated only if at least this many nodes, and more than half of all, miss
/// it: of two halves that do not reach one another, neither gives anything up.
const VOTES: usize = 2;

/// The reachability that a living node reports.
#[derive(Clone, Debug)]
pub(super) struct ReachabilityReport {
    pub(super) owner: Owner,
    /// It reports that it is isolated.
    pub(super) is_isolated: bool,
    /// Nodes that it does not reach.
    pub(super) missed: Vec<Owner>,
}

/// Whether a node is isolated from now on.
pub(super) fn is_isolated(me: Owner, living: &[ReachabilityReport]) -> bool {
    let heard = || living.iter().filter(|voice| !voice.is_isolated);
    let votes = |of: Owner| {
        let missing = heard().filter(|voice| voice.owner != of && voice.missed.contains(&of));
        missing.count()
    };
    let was_isolated = living
        .iter()
        .any(|voice| voice.owner == me && voice.is_isolated);
    if was_isolated {
        return votes(me) > 0;
    }
    let is_cut_off = |of: Owner| votes(of) >= VOTES && votes(of) * 2 > living.len();
    is_cut_off(me) && heard().any(|voice| !is_cut_off(voice.owner))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(node: u32) -> Owner {
        Owner {
            node,
            incarnation: 1,
        }
    }

    /// Nodes of the same group reach one another, and no others.
    fn apart(groups: &[&[u32]]) -> Vec<ReachabilityReport> {
        let all: Vec<u32> = groups.concat();
        let voice = |group: &[u32], own: u32| ReachabilityReport {
            owner: node(own),
            is_isolated: false,
            missed: all
                .iter()
                .filter(|other| !group.contains(other))
                .map(|other| node(*other))
                .collect(),
        };
        let voices = groups
            .iter()
            .flat_map(|group| group.iter().map(|own| voice(group, *own)));
        voices.collect()
    }

    /// The nodes that are isolated once all decisions are stable.
    fn settle(mut living: Vec<ReachabilityReport>) -> Vec<u32> {
        let mut last = Vec::new();
        for _ in 0..4 {
            let next: Vec<bool> = living
                .iter()
                .map(|voice| is_isolated(voice.owner, &living))
                .collect();
            for (voice, next) in living.iter_mut().zip(&next) {
                voice.is_isolated = *next;
            }
            let isolated = living.iter().filter(|voice| voice.is_isolated);
            last = isolated.map(|voice| voice.owner.node).collect();
        }
        last
    }

    #[test]
    fn the_smaller_part_is_isolated_and_never_all() {
        assert_eq!(settle(apart(&[&[1, 2], &[3]])), [3]);
        assert_eq!(settle(apart(&[&[1, 2, 3], &[4, 5]])), [4, 5]);
        for peer in [
            &[&[1][..], &[2]][..],
            &[&[1], &[2], &[3]],
            &[&[1, 2], &[3, 4]],
            &[&[1, 2], &[3, 4], &[5]],
            &[&[1, 2, 3], &[4, 5, 6], &[7]],
            &[&[1, 2, 3]],
        ] {
            assert_eq!(settle(apart(peer)), [] as [u32; 0], "{peer:?}");
        }
    }

    #[test]
    fn whoever_is_isolated_stays_so_until_nobody_misses_it() {
        let mut living = apart(&[&[1, 2], &[3]]);
        living[2].is_isolated = true;
        // One of the nodes that missed it leaves: it is not reached because of that.
        living.remove(0);
        assert!(is_isolated(node(3), &living));
        assert!(!is_isolated(node(2), &living), "it has no voice");
        living[0].missed.clear();
        assert!(!is_isolated(node(3), &living));
    }

    #[test]
    fn if_all_say_so_nobody_is() {
        let mut living = apart(&[&[1], &[2], &[3]]);
        for voice in &mut living {
            voice.is_isolated = true;
        }
        assert_eq!(settle(living), [] as [u32; 0]);
    }

    #[test]
    fn one_way_suffices() {
        let mut living = apart(&[&[1, 2], &[3]]);
        living[2].missed.clear();
        assert_eq!(settle(living), [3]);
    }
}

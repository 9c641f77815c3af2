//! Quorum rules of a volatile partition.
//!
//! Pure. An entry is acknowledged by a majority of the holders, so answers from enough
//! holders that the rest cannot be a majority cover every acknowledged entry: two of
//! three, one of two, the only one.

use steadfast_core::id::{Owner, Partition};
use steadfast_storage::replica_content::ReplicaPosition;
use xxhash_rust::xxh3::xxh3_64;

/// Replicas of a partition, if the cluster has as many nodes.
pub const COPIES: usize = 3;

/// What a claim knows of a holder of the last set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaReport {
    /// It refuses earlier owners from now on; its replica is at this position.
    Has(ReplicaPosition),
    /// It has answered and has no complete replica.
    Nothing,
    /// It has not answered yet.
    Silent,
    /// It is dead or was restarted.
    Dead,
}

/// The decision on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimDecision {
    /// The partition never had holders.
    Fresh,
    /// The next owner begins from the replica of this holder.
    Begin(Owner, ReplicaPosition),
    /// Acknowledged entries may be lost.
    Lost,
    /// Too few have answered.
    Wait,
}

/// Of `copies` replicas, how many must acknowledge an entry.
pub fn majority(copies: usize) -> usize {
    copies / 2 + 1
}

/// Of `copies` replicas, how many must answer a claim so that every acknowledged entry is
/// in one of them.
pub fn read_quorum(copies: usize) -> usize {
    (copies + 1).saturating_sub(majority(copies))
}

/// Decides from which replica the next owner begins: the most advanced of a read quorum,
/// its own if that is as far.
pub fn decide(me: Owner, holders: &[(Owner, ReplicaReport)]) -> ClaimDecision {
    if holders.is_empty() {
        return ClaimDecision::Fresh;
    }
    let copies = holders.iter().filter_map(|(owner, heard)| match heard {
        ReplicaReport::Has(position) => Some((*position, *owner == me, *owner)),
        _ => None,
    });
    let copies: Vec<_> = copies.collect();
    let silent = holders
        .iter()
        .filter(|(_, heard)| *heard == ReplicaReport::Silent);
    let needed = read_quorum(holders.len());
    if copies.len() + silent.count() < needed {
        return ClaimDecision::Lost;
    }
    match copies.iter().max() {
        Some((position, _, owner)) if copies.len() >= needed => {
            ClaimDecision::Begin(*owner, *position)
        }
        _ => ClaimDecision::Wait,
    }
}

/// The order in which nodes are chosen to hold a partition; it differs per partition, so
/// that replicas are spread.
pub(crate) fn rank(partition: Partition, node: Owner) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&partition.0.to_le_bytes());
    bytes[4..].copy_from_slice(&node.node.to_le_bytes());
    xxh3_64(&bytes)
}

#[cfg(test)]
mod tests {
    use steadfast_core::id::{EntryNumber, Epoch};

    use super::*;

    fn node(node: u32) -> Owner {
        Owner {
            node,
            incarnation: 1,
        }
    }

    fn at(epoch: u64, number: u64) -> ReplicaPosition {
        ReplicaPosition {
            epoch: Epoch(epoch),
            number: EntryNumber(number),
        }
    }

    fn has(epoch: u64, number: u64) -> ReplicaReport {
        ReplicaReport::Has(at(epoch, number))
    }

    fn decided(me: u32, heard: &[ReplicaReport]) -> ClaimDecision {
        let holders: Vec<_> = (1..).map(node).zip(heard.iter().copied()).collect();
        decide(node(me), &holders)
    }

    #[test]
    fn every_majority_meets_every_hearing() {
        for copies in 1..=9 {
            assert!(majority(copies) * 2 > copies);
            assert_eq!(majority(copies) + read_quorum(copies), copies + 1);
        }
        assert_eq!([1, 2, 3].map(majority), [1, 2, 2]);
        assert_eq!([1, 2, 3].map(read_quorum), [1, 1, 2]);
    }

    #[test]
    fn the_furthest_of_enough_is_begun_from() {
        let dead = ReplicaReport::Dead;
        assert_eq!(decided(1, &[]), ClaimDecision::Fresh);
        let two = decided(2, &[dead, has(1, 4), has(1, 5)]);
        assert_eq!(two, ClaimDecision::Begin(node(3), at(1, 5)));
        // A later epoch has confirmed less, and that was everything.
        let epochs = decided(2, &[dead, has(2, 4), has(1, 5)]);
        assert_eq!(epochs, ClaimDecision::Begin(node(2), at(2, 4)));
        // Its own copy, if that is as far.
        let own = decided(2, &[dead, has(1, 5), has(1, 5)]);
        assert_eq!(own, ClaimDecision::Begin(node(2), at(1, 5)));
        // A node that holds nothing begins from one that does.
        let other = decided(9, &[dead, has(1, 5)]);
        assert_eq!(other, ClaimDecision::Begin(node(2), at(1, 5)));
    }

    #[test]
    fn a_copy_that_may_miss_something_is_not_begun_from() {
        let (dead, silent) = (ReplicaReport::Dead, ReplicaReport::Silent);
        // The other two may have acknowledged what this one has not.
        assert_eq!(decided(3, &[dead, silent, has(1, 5)]), ClaimDecision::Wait);
        assert_eq!(decided(3, &[dead, dead, has(1, 5)]), ClaimDecision::Lost);
        assert_eq!(
            decided(3, &[dead, ReplicaReport::Nothing, has(1, 5)]),
            ClaimDecision::Lost
        );
        // Of two, each has everything.
        let one = decided(2, &[dead, has(1, 5)]);
        assert_eq!(one, ClaimDecision::Begin(node(2), at(1, 5)));
        assert_eq!(decided(2, &[dead, silent]), ClaimDecision::Wait);
        assert_eq!(decided(2, &[dead]), ClaimDecision::Lost);
        assert_eq!(decided(9, &[dead, dead, dead]), ClaimDecision::Lost);
    }

    #[test]
    fn copies_are_spread_over_the_nodes() {
        let mut first = [0; 4];
        for index in 0..400 {
            let partition = Partition::new(2, index);
            let nodes = (0..4).min_by_key(|own| rank(partition, node(*own)));
            first[nodes.unwrap() as usize] += 1;
        }
        assert!(
            first.iter().all(|count| (60..140).contains(count)),
            "{first:?}"
        );
    }
}

//! Probes whether other nodes are reachable.
//!
//! Every node probes every other one periodically, and lists those in its record that
//! do not answer. A node that most living nodes list still reaches the database, or it
//! would be dead by now, but its partitions are unreachable: so it hands them over
//! (`isolation`). It acquires its share again once it is no longer listed. Nothing else
//! depends on probes: ownership is decided by the engine.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use parking_lot::Mutex;
use steadfast_core::id::Owner;
use tokio::sync::Notify;

use super::join::ClusterSetup;
use super::request::Request;

/// Consecutive missing answers after which a node is missed, and consecutive answers
/// after which it is not.
const TRIES: u32 = 3;

/// Probes all other nodes periodically; notifies `bell` when a node is missed, or no
/// longer.
pub(super) async fn run(setup: &ClusterSetup, me: Owner, probes: &Probes, bell: &Notify) {
    let pause = setup.lease / 2;
    loop {
        tokio::time::sleep(pause).await;
        let peers = setup.members.others(me);
        let asked = peers.iter().map(|peer| async {
            let asked = setup.probing.send(peer, Request::Probe.encode(), pause);
            let asked = tokio::time::timeout(pause, asked).await;
            // Any answer shows that the node is reachable.
            (peer.owner, matches!(asked, Ok(Ok(_))))
        });
        let changed = probes.note(&join_all(asked).await);
        for (owner, is_missed) in &changed {
            let name = peers.iter().find(|peer| peer.owner == *owner);
            let node = name.map(|peer| peer.name.as_str()).unwrap_or_default();
            if *is_missed {
                tracing::warn!(event = "cluster.node_missed", node)
            } else {
                tracing::info!(event = "cluster.node_reached", node)
            }
        }
        if !changed.is_empty() {
            bell.notify_one();
        }
    }
}

/// Which other nodes do not answer.
#[derive(Default)]
pub(super) struct Probes {
    known: Mutex<BTreeMap<Owner, Reachability>>,
}

#[derive(Clone, Copy, Default)]
struct Reachability {
    is_missed: bool,
    /// Consecutive results that contradict `is_missed`.
    against: u32,
}

impl Probes {
    /// Nodes that do not answer.
    pub(super) fn missed(&self) -> Vec<Owner> {
        let known = self.known.lock();
        let missed = known.iter().filter(|(_, reach)| reach.is_missed);
        missed.map(|(owner, _)| *owner).collect()
    }

    /// Records the results of a round; answers which nodes are missed from now on, or
    /// no longer.
    pub(super) fn note(&self, answers: &[(Owner, bool)]) -> Vec<(Owner, bool)> {
        let mut known = self.known.lock();
        let mut changed = Vec::new();
        let next = answers.iter().map(|(owner, has_answered)| {
            let mut reach = known.get(owner).copied().unwrap_or_default();
            if reach.is_missed == *has_answered {
                reach.against += 1
            } else {
                reach.against = 0
            }
            if reach.against == TRIES {
                reach = Reachability {
                    is_missed: !reach.is_missed,
                    against: 0,
                };
                changed.push((*owner, reach.is_missed));
            }
            (*owner, reach)
        });
        *known = next.collect();
        changed
    }
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

    #[test]
    fn three_in_a_row_decide() {
        let probes = Probes::default();
        let round = |has_answered| probes.note(&[(node(1), has_answered), (node(2), true)]);
        for has_answered in [false, false, true, false, false] {
            assert_eq!(round(has_answered), []);
        }
        assert_eq!(round(false), [(node(1), true)]);
        assert_eq!(probes.missed(), [node(1)]);
        for has_answered in [true, true, false, true, true] {
            assert_eq!(round(has_answered), []);
        }
        assert_eq!(round(true), [(node(1), false)]);
        assert_eq!(probes.missed(), []);
    }

    #[test]
    fn a_node_that_is_asked_no_more_is_forgotten() {
        let probes = Probes::default();
        for _ in 0..3 {
            probes.note(&[(node(1), false)]);
        }
        assert_eq!(probes.missed(), [node(1)]);
        probes.note(&[]);
        assert_eq!(probes.missed(), []);
    }
}

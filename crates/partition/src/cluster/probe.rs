//! Whether other nodes are reached.
//!
//! Every node asks every other one again and again, and names those in its record that
//! do not answer. A node that is named by most of all living nodes reaches the database,
//! or it would be dead by now, but nobody reaches what it serves: so it gives it up
//! (`isolation`). It takes its share again when it is named no more. Nothing else depends
//! on this: what is taken is taken from the engine.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use parking_lot::Mutex;
use steadfast_core::id::Owner;
use tokio::sync::Notify;

use super::exchange::Request;
use super::join::Setup;

/// Answers in a row that decide: missing ones, and later ones that come.
const TRIES: u32 = 3;

/// Asks all other nodes again and again; rings when somebody is missed, or no more.
pub(super) async fn run(setup: &Setup, me: Owner, probes: &Probes, bell: &Notify) {
    let pause = setup.lease / 2;
    loop {
        tokio::time::sleep(pause).await;
        let peers = setup.roster.others(me);
        let asked = peers.iter().map(|peer| async {
            let asked = setup.probing.send(peer, Request::Probe.encode(), pause);
            let asked = tokio::time::timeout(pause, asked).await;
            // Whatever it answers, it is there.
            (peer.owner, matches!(asked, Ok(Ok(_))))
        });
        let changed = probes.note(&join_all(asked).await);
        for (owner, is_missed) in &changed {
            let name = peers.iter().find(|peer| peer.owner == *owner);
            let node = name.map(|peer| peer.name.as_str()).unwrap_or_default();
            match is_missed {
                true => tracing::warn!(event = "cluster.node_missed", node),
                false => tracing::info!(event = "cluster.node_reached", node),
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
    known: Mutex<BTreeMap<Owner, Reach>>,
}

#[derive(Clone, Copy, Default)]
struct Reach {
    is_missed: bool,
    /// Answers in a row that say otherwise.
    against: u32,
}

impl Probes {
    /// Nodes that are missed.
    pub(super) fn missed(&self) -> Vec<Owner> {
        let known = self.known.lock();
        let missed = known.iter().filter(|(_, reach)| reach.is_missed);
        missed.map(|(owner, _)| *owner).collect()
    }

    /// Notes who has answered in a round; answers who is missed from now on, or no more.
    pub(super) fn note(&self, answers: &[(Owner, bool)]) -> Vec<(Owner, bool)> {
        let mut known = self.known.lock();
        let mut changed = Vec::new();
        let next = answers.iter().map(|(owner, has_answered)| {
            let mut reach = known.get(owner).copied().unwrap_or_default();
            match reach.is_missed == *has_answered {
                true => reach.against += 1,
                false => reach.against = 0,
            }
            if reach.against == TRIES {
                reach = Reach {
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

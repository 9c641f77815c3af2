//! The known members, and what they serve.
//!
//! By this node's own clock, a node is alive for the time of a lease after its
//! record was last seen to change. Time in which this node could not read records
//! does not count.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use steadfast_core::clock::Clock;
use steadfast_core::id::{Epoch, Owner, Partition};
use steadfast_storage::engine::Record;
use tokio::sync::watch;

use super::isolation::ReachabilityReport;
use super::member_record::{MemberRecord, State};
use super::network::ClusterPeer;

/// The known members of the cluster.
pub struct Members {
    clock: Arc<dyn Clock>,
    lease: Duration,
    space: u16,
    seen: RwLock<BTreeMap<String, SeenMember>>,
    /// When the last list of records arrived.
    looked: Mutex<Duration>,
    changes: watch::Sender<u64>,
}

/// A node's record, and when it last changed.
#[derive(Clone)]
pub(super) struct SeenMember {
    pub(super) member: MemberRecord,
    pub(super) version: u64,
    pub(super) at: Duration,
}

impl Members {
    /// Creates an empty list of members.
    pub fn new(clock: Arc<dyn Clock>, lease: Duration, space: u16) -> Self {
        Self {
            clock,
            lease,
            space,
            seen: RwLock::default(),
            looked: Mutex::default(),
            changes: watch::channel(0).0,
        }
    }

    /// Changes when any member has changed.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Applies a list of records, requested at `asked`.
    pub(super) fn learn(&self, records: &[Record], asked: Duration) {
        let mut has_changed = false;
        let mut seen = self.seen.write();
        let now = self.clock.monotonic();
        let before = std::mem::replace(&mut *self.looked.lock(), now);
        let gap = now.saturating_sub(before);
        let was_blind = gap >= self.lease / 2;
        if was_blind {
            let later = |seen: &mut SeenMember| seen.at = now.min(seen.at + gap);
            seen.values_mut().for_each(later);
        }
        let at = if was_blind { now } else { asked };
        for record in records {
            let Ok(member) = MemberRecord::decode(record.value.clone()) else {
                continue;
            };
            let name = member.identity.name.clone();
            let known = seen.get(&name);
            if known.is_some_and(|known| known.version >= record.version) {
                continue;
            }
            has_changed |= known.is_none_or(|known| known.member != member);
            seen.insert(
                name,
                SeenMember {
                    member,
                    version: record.version,
                    at,
                },
            );
        }
        drop(seen);
        if has_changed {
            self.changes.send_modify(|count| *count += 1);
        }
    }

    pub(super) fn all(&self) -> Vec<SeenMember> {
        self.seen.read().values().cloned().collect()
    }

    /// Marks a node as dead before its time is over: its record does not change any
    /// more.
    pub(super) fn mark_dead(&self, name: &str) {
        if let Some(seen) = self.seen.write().get_mut(name) {
            seen.member.state = State::Gone;
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<SeenMember> {
        self.seen.read().get(name).cloned()
    }

    /// Whether a node has left, or its record did not change for the time of a lease.
    pub(super) fn is_dead(&self, seen: &SeenMember) -> bool {
        let silent = self.looked.lock().saturating_sub(seen.at);
        seen.member.state == State::Gone || silent >= self.lease
    }

    /// The living node that claims to serve a partition: the one with the highest
    /// epoch, if several claim it.
    pub(super) fn owner(&self, partition: Partition) -> Option<(ClusterPeer, Epoch)> {
        if partition.space() != self.space {
            return None;
        }
        let seen = self.seen.read();
        let living = seen.values().filter(|seen| !self.is_dead(seen));
        let serving = living.filter_map(|seen| {
            let serves = &seen.member.serves;
            let at = serves.binary_search_by_key(&partition.index(), |(index, _)| *index);
            at.ok().map(|at| (seen, serves[at].1))
        });
        let (seen, epoch) = serving.max_by_key(|(_, epoch)| *epoch)?;
        Some((seen.member.peer(), epoch))
    }

    /// A living node, by its identity.
    pub fn peer(&self, owner: Owner) -> Option<ClusterPeer> {
        let seen = self.seen.read();
        let mut living = seen.values().filter(|seen| !self.is_dead(seen));
        let found = living.find(|seen| seen.member.owner == owner)?;
        Some(found.member.peer())
    }

    /// All other living nodes that neither leave nor are isolated.
    pub fn staying(&self, me: Owner) -> Vec<Owner> {
        let seen = self.seen.read();
        let staying = seen.values().filter(|seen| {
            let is_up = seen.member.state == State::Up && !seen.member.is_isolated;
            is_up && !self.is_dead(seen) && seen.member.owner != me
        });
        staying.map(|seen| seen.member.owner).collect()
    }

    /// The reachability that all other living nodes report, except leaving ones.
    pub(super) fn reachability_reports(&self, me: Owner) -> Vec<ReachabilityReport> {
        let seen = self.seen.read();
        let others = seen.values().filter(|seen| {
            let is_up = seen.member.state == State::Up;
            is_up && !self.is_dead(seen) && seen.member.owner != me
        });
        let voice = |seen: &SeenMember| ReachabilityReport {
            owner: seen.member.owner,
            is_isolated: seen.member.is_isolated,
            missed: seen.member.missed.clone(),
        };
        others.map(voice).collect()
    }

    /// All other living nodes.
    pub fn others(&self, me: Owner) -> Vec<ClusterPeer> {
        let seen = self.seen.read();
        let living = seen.values().filter(|seen| !self.is_dead(seen));
        let others = living.filter(|seen| seen.member.owner != me);
        others.map(|seen| seen.member.peer()).collect()
    }
}

impl MemberRecord {
    pub(super) fn peer(&self) -> ClusterPeer {
        ClusterPeer {
            name: self.identity.name.clone(),
            owner: self.owner,
            address: self.identity.address.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use steadfast_core::clock::VirtualClock;

    use super::super::member_record::NodeIdentity;
    use super::*;

    const LEASE: Duration = Duration::from_secs(5);

    fn record(version: u64) -> Record {
        let member = MemberRecord {
            identity: NodeIdentity {
                name: "n".into(),
                address: String::new(),
                cluster: String::new(),
                fingerprint: [0; 16],
                protocol: 1,
                schema: 1,
            },
            owner: Owner {
                node: 1,
                incarnation: 1,
            },
            state: State::Up,
            serves: Vec::new(),
            missed: Vec::new(),
            is_isolated: false,
        };
        Record {
            key: MemberRecord::key("n"),
            version,
            value: member.encode(),
        }
    }

    #[test]
    fn silence_counts_only_while_somebody_listens() {
        let clock = Arc::new(VirtualClock::default());
        let roster = Members::new(Arc::clone(&clock) as _, LEASE, 0);
        let look = |after: Duration, version: u64| {
            clock.advance(after);
            roster.learn(&[record(version)], clock.monotonic());
            roster.is_dead(&roster.get("n").unwrap())
        };
        assert!(!look(LEASE, 1));
        for _ in 0..3 {
            assert!(!look(LEASE / 4, 1));
        }
        assert!(look(LEASE / 4, 1), "it was silent all the time");
        assert!(!look(LEASE / 4, 2));
        // It was silent for a quarter of a lease, and then this node could not read
        // records.
        for (version, blind) in [(2, LEASE / 10 * 9), (3, LEASE * 3)] {
            assert!(!look(LEASE / 4, version));
            assert!(!look(blind, version));
            assert!(!look(LEASE / 4, version + 1));
        }
        for _ in 0..3 {
            assert!(!look(LEASE / 4, 4));
        }
        assert!(look(LEASE / 4, 4));
    }
}

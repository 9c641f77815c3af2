//! One member of a group, cycle by cycle.
//!
//! A cycle: write the [renewals](GroupMember::renewals), list, write what
//! [the plan](GroupMember::plan) says, and pass on every
//! [outcome](GroupMember::record_outcome).
//! A member serves exactly what it tracks. It loses a partition when a write meets another
//! version, or when no write has succeeded for the expiration, counted from when the write
//! was requested: by then others may have claimed it. Every write has an outcome, if need
//! be [`WriteOutcome::Unknown`] after a time-out; until then its partition is left alone.
//! Outcomes that are late or repeated change nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use steadfast_core::clock::Timestamp;

use crate::balance::{self, BalancePlan, ConditionalWrite, Kind};
use crate::census::Census;
use crate::random::Random;
use crate::record::{OwnerId, PartitionIndex, RecordVersion, has_passed};
use crate::strategy::{GroupTiming, Strategy};

/// A member and what it tracks.
#[derive(Clone, Debug)]
pub struct GroupMember {
    id: OwnerId,
    strategy: Strategy,
    timing: GroupTiming,
    held: BTreeMap<PartitionIndex, OwnedPartition>,
    /// Writes that were requested and have no outcome yet.
    pending: BTreeMap<PartitionIndex, (Kind, Timestamp)>,
    leaving: bool,
}

/// A partition of ours.
#[derive(Clone, Copy, Debug)]
struct OwnedPartition {
    version: RecordVersion,
    /// When the last write that succeeded was requested.
    asked: Timestamp,
    /// A write ended unknown: the version may be another one by now.
    is_doubtful: bool,
}

/// How a conditional write ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteOutcome {
    /// The record has our id and this version.
    Written(RecordVersion),
    /// It had another version, or its owner refused to hand over.
    Conflict,
    /// Unknown: the write failed, or timed out.
    Unknown,
}

/// What the outcome of a write means for a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OwnershipChange {
    /// Begin to serve it.
    Started,
    /// Stop serving it: another member has it.
    Lost,
    /// It was given up or handed over.
    Released,
    /// Won or renewed while all is being given up: do not serve it, release again.
    Late,
    /// Nothing changes.
    None,
}

impl GroupMember {
    /// A member that owns nothing yet.
    pub fn new(id: OwnerId, strategy: Strategy, timing: GroupTiming) -> Self {
        Self {
            id,
            strategy,
            timing,
            held: BTreeMap::new(),
            pending: BTreeMap::new(),
            leaving: false,
        }
    }

    /// Its id.
    pub fn id(&self) -> &OwnerId {
        &self.id
    }

    /// The partitions that it serves.
    pub fn held(&self) -> impl Iterator<Item = PartitionIndex> + '_ {
        self.held.keys().copied()
    }

    /// How many partitions it serves.
    pub fn count(&self) -> usize {
        self.held.len()
    }

    /// Step 1 of a cycle: a write for each partition we hold, except those that were written
    /// within half an interval: quick cycles need not renew each time.
    pub fn renewals(&mut self, now: Timestamp) -> Vec<ConditionalWrite> {
        let half = self.timing.interval / 2;
        let is_due = |holding: &OwnedPartition| has_passed(holding.asked, now, half);
        self.write_all(&Kind::Renew, now, |holding| {
            !holding.is_doubtful && is_due(holding)
        })
    }

    /// Steps 3 to 5: adopts, claims and steals.
    pub fn plan(
        &mut self,
        census: &Census,
        now: Timestamp,
        random: &mut dyn Random,
    ) -> BalancePlan {
        if self.leaving {
            return BalancePlan::default();
        }
        let sure = self.held.iter().filter(|(_, held)| !held.is_doubtful);
        let known: BTreeSet<_> = sure
            .map(|(one, _)| one)
            .chain(self.pending.keys())
            .collect();
        let known = known.into_iter().copied().collect();
        let step = self.strategy.step;
        let mut plan = balance::plan(census, &self.id, &known, step, random);
        plan.lost = self.drop_lost(census);
        for action in &plan.actions {
            let asked = (action.kind.clone(), now);
            self.pending.insert(action.partition, asked);
        }
        plan
    }

    /// Drops doubtful partitions that another member has written since.
    fn drop_lost(&mut self, census: &Census) -> Vec<PartitionIndex> {
        let listing = census.listing();
        let mut lost = Vec::new();
        self.held.retain(|partition, holding| {
            let is_lost = holding.is_doubtful
                && listing.version(*partition) > holding.version
                && listing.owner(*partition) != &self.id;
            if is_lost {
                lost.push(*partition);
            }
            !is_lost
        });
        lost
    }

    /// Time from the beginning of the cycle with this plan to that of the next. A newcomer
    /// waits for a whole interval at least, so that it sees members that joined with it.
    pub fn wait(&self, plan: &BalancePlan, random: &mut dyn Random) -> Duration {
        if plan.is_newcomer {
            return self.timing.interval + self.timing.chance(random);
        }
        self.strategy.wait(&self.timing, plan.balanced, random)
    }

    /// Records how a write ended.
    pub fn record_outcome(
        &mut self,
        partition: PartitionIndex,
        answer: WriteOutcome,
    ) -> OwnershipChange {
        let Some((kind, asked)) = self.pending.remove(&partition) else {
            return OwnershipChange::None;
        };
        match (kind, answer) {
            (Kind::Release | Kind::Give { .. }, _) => {
                self.held.remove(&partition);
                OwnershipChange::Released
            }
            (_, WriteOutcome::Written(version)) => self.won(partition, version, asked),
            (_, WriteOutcome::Conflict) => match self.held.remove(&partition) {
                Some(_) => OwnershipChange::Lost,
                None => OwnershipChange::None,
            },
            (_, WriteOutcome::Unknown) => {
                if let Some(holding) = self.held.get_mut(&partition) {
                    holding.is_doubtful = true;
                }
                OwnershipChange::None
            }
        }
    }

    fn won(
        &mut self,
        partition: PartitionIndex,
        version: RecordVersion,
        asked: Timestamp,
    ) -> OwnershipChange {
        let holding = OwnedPartition {
            version,
            asked,
            is_doubtful: false,
        };
        match self.held.insert(partition, holding) {
            _ if self.leaving => OwnershipChange::Late,
            Some(_) => OwnershipChange::None,
            None => OwnershipChange::Started,
        }
    }

    /// Stops serving partitions that were not renewed for the expiration; returns them.
    pub fn expire(&mut self, now: Timestamp) -> Vec<PartitionIndex> {
        let expiration = self.timing.expiration;
        let over = |holding: &OwnedPartition| has_passed(holding.asked, now, expiration);
        let lapsed: Vec<_> = self
            .held
            .iter()
            .filter(|(_, holding)| over(holding))
            .map(|(partition, _)| *partition)
            .collect();
        for partition in &lapsed {
            self.held.remove(partition);
        }
        lapsed
    }

    /// Hands over a partition that another member requests and saw with `version`. `None`
    /// if we do not hold it, or have written it since: then the other one's view is old.
    /// Stop serving the partition before the write.
    pub fn give(
        &mut self,
        partition: PartitionIndex,
        version: RecordVersion,
        to: &OwnerId,
        now: Timestamp,
    ) -> Option<ConditionalWrite> {
        let holding = self.held.get(&partition)?;
        let is_current = holding.version == version && !holding.is_doubtful;
        if !is_current || self.pending.contains_key(&partition) {
            return None;
        }
        let kind = Kind::Give { to: to.clone() };
        self.pending.insert(partition, (kind.clone(), now));
        Some(ConditionalWrite {
            partition,
            expected: version,
            kind,
        })
    }

    /// Claims a partition whatever its current owner, unless this member has it or has
    /// requested it. `version` is the one that its record was seen with.
    pub fn take_over(
        &mut self,
        partition: PartitionIndex,
        version: RecordVersion,
        now: Timestamp,
    ) -> Option<ConditionalWrite> {
        let is_sure = |holding: &OwnedPartition| !holding.is_doubtful;
        let is_ours = self.held.get(&partition).is_some_and(is_sure);
        if self.leaving || is_ours || self.pending.contains_key(&partition) {
            return None;
        }
        self.pending.insert(partition, (Kind::Claim, now));
        Some(ConditionalWrite {
            partition,
            expected: version,
            kind: Kind::Claim,
        })
    }

    /// Gives up one partition, unless a write of it is under way. Stop serving it before.
    pub fn give_up(
        &mut self,
        partition: PartitionIndex,
        now: Timestamp,
    ) -> Option<ConditionalWrite> {
        let holding = self.held.get(&partition)?;
        if self.pending.contains_key(&partition) {
            return None;
        }
        let expected = holding.version;
        self.pending.insert(partition, (Kind::Release, now));
        Some(ConditionalWrite {
            partition,
            expected,
            kind: Kind::Release,
        })
    }

    /// Leaves: from now on nothing is claimed, and what is held is given up, except what
    /// has a write under way. Call it again after [`OwnershipChange::Late`]. Stop serving
    /// before the writes.
    pub fn release(&mut self, now: Timestamp) -> Vec<ConditionalWrite> {
        self.leaving = true;
        self.write_all(&Kind::Release, now, |_| true)
    }

    /// One write for each holding that has none under way.
    fn write_all(
        &mut self,
        kind: &Kind,
        now: Timestamp,
        choose: impl Fn(&OwnedPartition) -> bool,
    ) -> Vec<ConditionalWrite> {
        let mut actions = Vec::with_capacity(self.held.len());
        for (partition, holding) in &self.held {
            if !choose(holding) || self.pending.contains_key(partition) {
                continue;
            }
            self.pending.insert(*partition, (kind.clone(), now));
            actions.push(ConditionalWrite {
                partition: *partition,
                expected: holding.version,
                kind: kind.clone(),
            });
        }
        actions
    }
}

#[cfg(test)]
mod tests;

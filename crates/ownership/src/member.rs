//! One member of a group, cycle by cycle.
//!
//! A cycle: write the [renewals](Member::renewals), list, write what
//! [the plan](Member::plan) says, and pass on every [outcome](Member::answer). A member
//! serves exactly what it tracks. It loses a partition when a write meets another
//! version, or when no write has succeeded for the expiration, counted from when the
//! write was requested: by then others may have claimed it. Every write has an outcome, if
//! need be [`Answer::Unknown`] after a time-out; until then its partition is left alone.
//! Outcomes that are late or repeated change nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use steadfast_core::clock::Timestamp;

use crate::balance::{self, Action, Kind, Plan};
use crate::census::Census;
use crate::random::Random;
use crate::record::{OwnerId, PartitionIndex, Version, has_passed};
use crate::strategy::{Strategy, Timing};

/// A member and what it tracks.
#[derive(Clone, Debug)]
pub struct Member {
    id: OwnerId,
    strategy: Strategy,
    timing: Timing,
    held: BTreeMap<PartitionIndex, Holding>,
    /// Writes that were requested and have no outcome yet.
    pending: BTreeMap<PartitionIndex, (Kind, Timestamp)>,
    leaving: bool,
}

/// A partition of ours.
#[derive(Clone, Copy, Debug)]
struct Holding {
    version: Version,
    /// When the last write that succeeded was requested.
    asked: Timestamp,
    /// A write ended unknown: the version may be another one by now.
    is_doubtful: bool,
}

/// How a conditional write ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The record has our id and this version.
    Written(Version),
    /// It had another version, or its owner refused to hand over.
    Conflict,
    /// Unknown: the write failed, or timed out.
    Unknown,
}

/// What the outcome of a write means for a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
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

impl Member {
    /// A member that owns nothing yet.
    pub fn new(id: OwnerId, strategy: Strategy, timing: Timing) -> Self {
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
    pub fn renewals(&mut self, now: Timestamp) -> Vec<Action> {
        let half = self.timing.interval / 2;
        let is_due = |holding: &Holding| has_passed(holding.asked, now, half);
        self.write_all(&Kind::Renew, now, |holding| {
            !holding.is_doubtful && is_due(holding)
        })
    }

    /// Steps 3 to 5: adopts, claims and steals.
    pub fn plan(&mut self, census: &Census, now: Timestamp, random: &mut dyn Random) -> Plan {
        if self.leaving {
            return Plan::default();
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
    pub fn wait(&self, plan: &Plan, random: &mut dyn Random) -> Duration {
        if plan.is_newcomer {
            return self.timing.interval + self.timing.chance(random);
        }
        self.strategy.wait(&self.timing, plan.balanced, random)
    }

    /// Records how a write ended.
    pub fn answer(&mut self, partition: PartitionIndex, answer: Answer) -> Change {
        let Some((kind, asked)) = self.pending.remove(&partition) else {
            return Change::None;
        };
        match (kind, answer) {
            (Kind::Release | Kind::Give { .. }, _) => {
                self.held.remove(&partition);
                Change::Released
            }
            (_, Answer::Written(version)) => self.won(partition, version, asked),
            (_, Answer::Conflict) => match self.held.remove(&partition) {
                Some(_) => Change::Lost,
                None => Change::None,
            },
            (_, Answer::Unknown) => {
                if let Some(holding) = self.held.get_mut(&partition) {
                    holding.is_doubtful = true;
                }
                Change::None
            }
        }
    }

    fn won(&mut self, partition: PartitionIndex, version: Version, asked: Timestamp) -> Change {
        let holding = Holding {
            version,
            asked,
            is_doubtful: false,
        };
        match self.held.insert(partition, holding) {
            _ if self.leaving => Change::Late,
            Some(_) => Change::None,
            None => Change::Started,
        }
    }

    /// Stops serving partitions that were not renewed for the expiration; returns them.
    pub fn lapse(&mut self, now: Timestamp) -> Vec<PartitionIndex> {
        let expiration = self.timing.expiration;
        let over = |holding: &Holding| has_passed(holding.asked, now, expiration);
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

    /// Another member asks for a partition that it saw with `version`. Refused if we do not
    /// hold it, or have written it since: then the other one's view is old. Stop serving
    /// the partition before the write.
    pub fn give(
        &mut self,
        partition: PartitionIndex,
        version: Version,
        to: &OwnerId,
        now: Timestamp,
    ) -> Option<Action> {
        let holding = self.held.get(&partition)?;
        let is_current = holding.version == version && !holding.is_doubtful;
        if !is_current || self.pending.contains_key(&partition) {
            return None;
        }
        let kind = Kind::Give { to: to.clone() };
        self.pending.insert(partition, (kind.clone(), now));
        Some(Action {
            partition,
            expected: version,
            kind,
        })
    }

    /// Claims a partition whatever its current owner, unless this member has it or has
    /// requested it. `version` is the one that its record was seen with.
    pub fn take_from_anybody(
        &mut self,
        partition: PartitionIndex,
        version: Version,
        now: Timestamp,
    ) -> Option<Action> {
        let is_sure = |holding: &Holding| !holding.is_doubtful;
        let is_ours = self.held.get(&partition).is_some_and(is_sure);
        if self.leaving || is_ours || self.pending.contains_key(&partition) {
            return None;
        }
        self.pending.insert(partition, (Kind::Claim, now));
        Some(Action {
            partition,
            expected: version,
            kind: Kind::Claim,
        })
    }

    /// Gives up one partition, unless a write of it is under way. Stop serving it before.
    pub fn give_up(&mut self, partition: PartitionIndex, now: Timestamp) -> Option<Action> {
        let holding = self.held.get(&partition)?;
        if self.pending.contains_key(&partition) {
            return None;
        }
        let expected = holding.version;
        self.pending.insert(partition, (Kind::Release, now));
        Some(Action {
            partition,
            expected,
            kind: Kind::Release,
        })
    }

    /// Leaves: from now on nothing is taken, and what is held is given up, except what has a
    /// write under way. Call it again after [`Change::Late`]. Stop serving before the writes.
    pub fn release(&mut self, now: Timestamp) -> Vec<Action> {
        self.leaving = true;
        self.write_all(&Kind::Release, now, |_| true)
    }

    /// One write for each holding that has none under way.
    fn write_all(
        &mut self,
        kind: &Kind,
        now: Timestamp,
        choose: impl Fn(&Holding) -> bool,
    ) -> Vec<Action> {
        let mut actions = Vec::with_capacity(self.held.len());
        for (partition, holding) in &self.held {
            if !choose(holding) || self.pending.contains_key(partition) {
                continue;
            }
            self.pending.insert(*partition, (kind.clone(), now));
            actions.push(Action {
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

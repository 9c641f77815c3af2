//! The balancing plan: what one member does next.
//!
//! One pure function from a census to a list of conditional writes. With P
//! partitions, n members (we included) and min = P / n, a member takes something
//! only if it has fewer than min, or has min and no member has fewer. It takes unclaimed
//! partitions first, then from members with more than min + 1, and from those with
//! exactly min + 1 only if it has fewer than min. [`BalanceStep`] says how many at once.
//!
//! A plan decides nothing: each action may lose its race, and losing is not an error.

use std::collections::BTreeSet;

use crate::census::Census;
use crate::random::Random;
use crate::record::{OwnerId, PartitionIndex, RecordVersion};
use crate::strategy::BalanceStep;

/// A conditional write of one record, which puts our id into it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConditionalWrite {
    /// The partition.
    pub partition: PartitionIndex,
    /// The version that the record must have.
    pub expected: RecordVersion,
    /// What the write is for.
    pub kind: Kind,
}

/// What a write is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Keep what we have.
    Renew,
    /// Adopt a record that has our id although we do not track it: we were restarted,
    /// or the outcome of a write is unknown.
    Adopt,
    /// Take a partition that has no owner any more.
    Claim,
    /// Take a partition from a living owner. Users' processors just write; a partition of
    /// the cluster's own is requested, and its owner writes [`Kind::Give`].
    Steal {
        /// The owner it is taken from.
        from: OwnerId,
    },
    /// Hand over to another member: its id is written instead of ours.
    Give {
        /// The member that requested it.
        to: OwnerId,
    },
    /// Give up: the empty id is written, so that others need not wait.
    Release,
}

/// What a member does in one cycle.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BalancePlan {
    /// The writes; their order does not matter.
    pub actions: Vec<ConditionalWrite>,
    /// Whether this member has its share and there was nothing to take.
    pub balanced: bool,
    /// Whether no listing shows this member yet, and the plan only makes it visible before
    /// it takes its share.
    pub is_newcomer: bool,
    /// Doubtful partitions that belong to another member: stop serving them.
    pub lost: Vec<PartitionIndex>,
}

/// What member `me` should do, given what it holds or has already requested.
pub fn plan(
    census: &Census,
    me: &OwnerId,
    held: &BTreeSet<PartitionIndex>,
    step: BalanceStep,
    random: &mut dyn Random,
) -> BalancePlan {
    let mut planner = Planner::new(census, me, held, random);
    planner.adopt();
    let adopts = planner.actions.len();
    match step {
        BalanceStep::One => planner.take_one(),
        BalanceStep::Deficit => planner.take_deficit(),
        BalanceStep::Share => planner.take_share(),
    }
    // With `Share`, a member is not balanced before every partition has an owner.
    let is_left = step == BalanceStep::Share && !census.unclaimed().is_empty();
    let is_idle = planner.actions.len() == adopts;
    let is_unseen = step == BalanceStep::Share && census.standing(me).is_none();
    BalancePlan {
        balanced: planner.own >= planner.min && is_idle && !is_left,
        actions: planner.actions,
        is_newcomer: is_unseen && !is_idle,
        lost: Vec::new(),
    }
}

/// A plan in the making.
struct Planner<'a> {
    census: &'a Census,
    me: &'a OwnerId,
    held: &'a BTreeSet<PartitionIndex>,
    random: &'a mut dyn Random,
    /// What we have: listed as ours, or held though the listing does not show it yet.
    own: u32,
    min: u32,
    actions: Vec<ConditionalWrite>,
}

impl<'a> Planner<'a> {
    fn new(
        census: &'a Census,
        me: &'a OwnerId,
        held: &'a BTreeSet<PartitionIndex>,
        random: &'a mut dyn Random,
    ) -> Self {
        let listed = census.standing(me);
        let members = census.members() + u32::from(listed.is_none());
        let own = match &listed {
            None => held.len(),
            Some(standing) => {
                let listed = census.owned_by(standing);
                // Partitions of one member are listed in ascending order.
                let hidden = |partition: &&PartitionIndex| listed.binary_search(partition).is_err();
                listed.len() + held.iter().filter(hidden).count()
            }
        };
        Self {
            census,
            me,
            held,
            random,
            own: own as u32,
            min: census.partitions() / members,
            actions: Vec::new(),
        }
    }

    /// Unexpired records with our id that we do not hold.
    fn adopt(&mut self) {
        let Some(standing) = self.census.standing(self.me) else {
            return;
        };
        for partition in self.census.owned_by(&standing) {
            if !self.held.contains(partition) {
                self.act(*partition, Kind::Adopt);
            }
        }
    }

    /// The reference: one claim, or else one steal.
    fn take_one(&mut self) {
        if self.wanted() == 0 {
            return;
        }
        match self.pick(self.census.unclaimed()) {
            Some(partition) => self.act(partition, Kind::Claim),
            None => self.steal_one(),
        }
    }

    /// All that repeated single steps would claim, or else one steal.
    fn take_deficit(&mut self) {
        let held = self.held;
        let unclaimed = self.census.unclaimed().iter();
        let mut free: Vec<_> = unclaimed.filter(|one| !held.contains(one)).collect();
        let wanted = self.wanted();
        if wanted > 0 && free.is_empty() {
            return self.steal_one();
        }
        for _ in 0..wanted.min(free.len() as u32) {
            let at = self.random.below(free.len() as u32);
            let partition = *free.swap_remove(at as usize);
            self.act(partition, Kind::Claim);
        }
    }

    /// Our whole share: what is matched with it, or what is unclaimed before anything is
    /// stolen. Unclaimed partitions go to the first member that lacks some; a member that
    /// lacks none takes only what is reserved for no member.
    fn take_share(&mut self) {
        // No listing shows a newcomer before it owns something. If it took its share at
        // once, it would take what belongs to other newcomers that it cannot see.
        let Some(standing) = self.census.standing(self.me) else {
            return self.take_one();
        };
        let missing = standing.share.saturating_sub(self.own) as usize;
        let units = self.census.matched(&standing).take(missing);
        let (owned, free): (Vec<_>, Vec<_>) = units
            .filter(|unit| !self.held.contains(&unit.partition))
            .partition(|unit| unit.is_owned);
        for unit in &free {
            self.act(unit.partition, Kind::Claim);
        }
        let more = self.claim_some(self.census.unclaimed(), missing - free.len());
        for unit in owned.iter().skip(more) {
            self.steal(unit.partition);
        }
        if missing == 0 {
            self.take_leftover();
        }
    }

    /// Claims an extra, or a part of what is reserved for no member.
    fn take_leftover(&mut self) {
        if self.own == self.min && self.claim_some(self.census.spare(), 1) > 0 {
            return;
        }
        let leftover = self.census.leftover();
        let part = leftover.len().div_ceil(self.census.members() as usize);
        self.claim_some(leftover, part);
    }

    /// Claims up to `count` of these, from a random one on; returns how many.
    fn claim_some(&mut self, range: &[PartitionIndex], count: usize) -> usize {
        if range.is_empty() || count == 0 {
            return 0;
        }
        let taken: BTreeSet<_> = self.actions.iter().map(|action| action.partition).collect();
        let first = self.random.below(range.len() as u32) as usize;
        let from_there = range[first..].iter().chain(&range[..first]);
        let free = from_there.filter(|one| !self.held.contains(one) && !taken.contains(one));
        let chosen: Vec<_> = free.take(count).copied().collect();
        for partition in &chosen {
            self.act(*partition, Kind::Claim);
        }
        chosen.len()
    }

    /// How many unclaimed partitions we may take: up to min, and one more if no
    /// other member lacks one.
    fn wanted(&self) -> u32 {
        if self.own > self.min {
            return 0;
        }
        let fewest = self.census.fewest_of_others(self.me);
        let others_have_min = fewest.is_none_or(|fewest| fewest >= self.min);
        self.min - self.own + u32::from(others_have_min)
    }

    fn steal_one(&mut self) {
        let rich = self.census.owned_above(self.min + 1);
        let range = if !rich.is_empty() {
            rich
        } else if self.own < self.min {
            self.census.owned_above(self.min)
        } else {
            return;
        };
        if let Some(partition) = self.pick(range) {
            self.steal(partition);
        }
    }

    /// A random one, except those that we hold although the listing does not show it.
    fn pick(&mut self, range: &[PartitionIndex]) -> Option<PartitionIndex> {
        if range.is_empty() {
            return None;
        }
        let first = self.random.below(range.len() as u32) as usize;
        let candidates = range[first..].iter().chain(&range[..first]);
        let mut free = candidates.filter(|partition| !self.held.contains(partition));
        free.next().copied()
    }

    fn steal(&mut self, partition: PartitionIndex) {
        let from = self.census.listing().owner(partition).clone();
        self.act(partition, Kind::Steal { from });
    }

    fn act(&mut self, partition: PartitionIndex, kind: Kind) {
        self.actions.push(ConditionalWrite {
            partition,
            expected: self.census.listing().version(partition),
            kind,
        });
    }
}

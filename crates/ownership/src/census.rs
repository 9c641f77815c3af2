//! Who is alive and owns how much, counted from one listing.
//!
//! Taking a census costs O(partitions + members log members); a plan made from it
//! costs what its own member holds and takes. Members are sorted by what they own,
//! most first, so "all partitions of members with more than k" is one range.
//!
//! Each member has a share: of P partitions and n members each one gets P / n, and
//! the first P mod n get one extra. What a member owns beyond its share is its excess.
//! What all lack equals what is unclaimed plus all excess, so the two can be matched
//! one to one: first what members lack to P / n, then the extras; first what
//! is unclaimed, then the excess. For a member that is late with its renewals nothing is
//! set aside: it may be dead, and what is unclaimed should not wait for it. Nor is
//! anything set aside that has been waiting for long: an owner now is better than the
//! right owner later.

use steadfast_core::clock::Timestamp;

use crate::listing::{ListingRow, NO_OWNER, OwnerNumber, OwnershipListing};
use crate::record::{OwnerId, PartitionIndex, RecordVersion, has_passed};
use crate::strategy::GroupTiming;

/// One listing, counted.
#[derive(Clone, Debug)]
pub struct Census {
    listing: OwnershipListing,
    unclaimed: Vec<PartitionIndex>,
    overdue: Vec<PartitionIndex>,
    /// Members, most partitions first; ties in the order of their ids.
    standings: Vec<MemberStanding>,
    /// The index in `standings`, by the owner's number in the listing.
    places: Vec<Option<u32>>,
    /// Owned partitions, grouped by member in the order of `standings`.
    owned: Vec<PartitionIndex>,
    /// What all members lack to P / n, and all in all.
    lacking: (u32, u32),
}

/// A member as the listing shows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemberStanding {
    owner: OwnerNumber,
    pub(crate) count: u32,
    /// It has not renewed for longer than it should.
    is_late: bool,
    pub(crate) share: u32,
    /// Where its partitions begin in `owned`.
    start: u32,
    /// The excess of all members before it.
    excess_before: u32,
    /// The first unit that is matched with what it lacks to P / n, and how many are.
    base: (u32, u32),
    /// The unit that is matched with its extra, if it lacks that.
    extra: Option<u32>,
}

/// What the listing shows of one owner.
#[derive(Clone, Copy, Debug)]
struct Tally {
    count: u32,
    newest: Timestamp,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            count: 0,
            newest: Timestamp(i64::MIN),
        }
    }
}

/// A partition that may be taken, and from whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unit {
    pub(crate) partition: PartitionIndex,
    pub(crate) is_owned: bool,
}

impl Census {
    /// Counts a listing. `asked` is when the listing was requested, not when it arrived:
    /// so a slow store makes no member look dead.
    pub fn take(listing: OwnershipListing, asked: Timestamp, timing: &GroupTiming) -> Self {
        Self::with_members(listing, &[], asked, timing)
    }

    /// Counts a listing, and members who are known to live though they may own nothing.
    pub fn with_members(
        mut listing: OwnershipListing,
        members: &[OwnerId],
        asked: Timestamp,
        timing: &GroupTiming,
    ) -> Self {
        let known: Vec<_> = members.iter().map(|id| listing.intern(id)).collect();
        let mut census = Self {
            unclaimed: Vec::new(),
            overdue: Vec::new(),
            standings: Vec::new(),
            places: vec![None; listing.numbers()],
            owned: Vec::new(),
            lacking: (0, listing.partitions()),
            listing,
        };
        let (holders, tallies) = census.sort_out(asked, timing);
        census.rank(&tallies, &known, |newest| {
            has_passed(newest, asked, timing.patience)
        });
        census.group(&holders);
        census.match_up();
        census
    }

    /// The owner of each partition, 0 if it is unclaimed, and tallies by owner number.
    fn sort_out(
        &mut self,
        asked: Timestamp,
        timing: &GroupTiming,
    ) -> (Vec<OwnerNumber>, Vec<Tally>) {
        let mut tallies = vec![Tally::default(); self.listing.numbers()];
        let mut holders = Vec::with_capacity(self.listing.rows().len());
        for (index, row) in self.listing.rows().iter().enumerate() {
            let is_free = row.owner == NO_OWNER;
            if is_free || has_passed(row.modified, asked, timing.expiration) {
                let partition = PartitionIndex(index as u32);
                self.unclaimed.push(partition);
                if is_overdue(row, asked, timing) {
                    self.overdue.push(partition);
                }
                holders.push(NO_OWNER);
                continue;
            }
            let tally = &mut tallies[row.owner as usize];
            tally.count += 1;
            tally.newest = tally.newest.max(row.modified);
            holders.push(row.owner);
        }
        (holders, tallies)
    }

    /// Sorts the members: those who own something, and those who are known.
    fn rank(
        &mut self,
        tallies: &[Tally],
        known: &[OwnerNumber],
        is_late: impl Fn(Timestamp) -> bool,
    ) {
        let mut is_known = vec![false; tallies.len()];
        for number in known {
            is_known[*number as usize] = *number != NO_OWNER;
        }
        let mut order: Vec<OwnerNumber> = (0..tallies.len() as OwnerNumber)
            .filter(|number| is_known[*number as usize] || tallies[*number as usize].count > 0)
            .collect();
        let listing = &self.listing;
        order.sort_unstable_by(|a, b| {
            let by_count = tallies[*b as usize].count.cmp(&tallies[*a as usize].count);
            by_count.then_with(|| listing.id(*a).cmp(listing.id(*b)))
        });
        let mut start = 0;
        for (place, owner) in order.iter().enumerate() {
            let Tally { count, newest } = tallies[*owner as usize];
            self.places[*owner as usize] = Some(place as u32);
            self.standings.push(MemberStanding {
                owner: *owner,
                count,
                is_late: is_late(newest) && !is_known[*owner as usize],
                share: 0,
                start,
                excess_before: 0,
                base: (0, 0),
                extra: None,
            });
            start += count;
        }
    }

    /// Sorts the owned partitions by their members' places.
    fn group(&mut self, holders: &[OwnerNumber]) {
        let mut next: Vec<u32> = vec![0; self.places.len()];
        for standing in &self.standings {
            next[standing.owner as usize] = standing.start;
        }
        let owned = holders.len() - self.unclaimed.len();
        self.owned = vec![PartitionIndex(0); owned];
        for (index, holder) in holders.iter().enumerate() {
            if *holder == NO_OWNER {
                continue;
            }
            let at = &mut next[*holder as usize];
            self.owned[*at as usize] = PartitionIndex(index as u32);
            *at += 1;
        }
    }

    fn match_up(&mut self) {
        let members = self.standings.len() as u32;
        if members == 0 {
            return;
        }
        let (min, extras) = (self.partitions() / members, self.partitions() % members);
        let (mut excess, mut base) = (0, 0);
        for (place, standing) in self.standings.iter_mut().enumerate() {
            standing.share = min + u32::from((place as u32) < extras);
            standing.excess_before = excess;
            if !standing.is_late {
                standing.base = (base, min.saturating_sub(standing.count));
            }
            excess += standing.count.saturating_sub(standing.share);
            base += standing.base.1;
        }
        let mut all = base;
        let lucky = self.standings.iter_mut().take(extras as usize);
        for standing in lucky.filter(|one| one.count <= min && !one.is_late) {
            standing.extra = Some(all);
            all += 1;
        }
        self.lacking = (base, all);
    }

    /// The listing that was counted.
    pub fn listing(&self) -> &OwnershipListing {
        &self.listing
    }

    /// How many partitions the group has.
    pub fn partitions(&self) -> u32 {
        self.listing.partitions()
    }

    /// How many members it shows.
    pub fn members(&self) -> u32 {
        self.standings.len() as u32
    }

    /// How many partitions a member owns; none if it is not a member.
    pub fn count(&self, id: &OwnerId) -> Option<u32> {
        self.standing(id).map(|standing| standing.count)
    }

    /// The fewest and the most partitions that any member owns.
    pub fn spread(&self) -> Option<(u32, u32)> {
        Some((self.standings.last()?.count, self.standings.first()?.count))
    }

    /// Partitions that any member may claim.
    pub fn unclaimed(&self) -> &[PartitionIndex] {
        &self.unclaimed
    }

    /// The fewest moves after which no member lacks anything, late members left aside.
    pub fn moves_needed(&self) -> u32 {
        self.lacking.1
    }

    pub(crate) fn standing(&self, id: &OwnerId) -> Option<MemberStanding> {
        let number = self.listing.number(id)?;
        let place = self.places[number as usize]?;
        Some(self.standings[place as usize])
    }

    /// What a member owns.
    pub(crate) fn owned_by(&self, standing: &MemberStanding) -> &[PartitionIndex] {
        let start = standing.start as usize;
        &self.owned[start..start + standing.count as usize]
    }

    /// All partitions of members who own more than `count`.
    pub(crate) fn owned_above(&self, count: u32) -> &[PartitionIndex] {
        let first_below = self
            .standings
            .partition_point(|standing| standing.count > count);
        let end = self
            .standings
            .get(first_below)
            .map_or(self.owned.len(), |standing| standing.start as usize);
        &self.owned[..end]
    }

    /// The fewest partitions that any member but `me` owns.
    pub(crate) fn fewest_of_others(&self, me: &OwnerId) -> Option<u32> {
        let mine = self.listing.number(me);
        self.standings
            .iter()
            .rev()
            .find(|standing| Some(standing.owner) != mine)
            .map(|standing| standing.count)
    }

    /// What is matched with what a member lacks. The members who own most come first: one
    /// that joined and left at once is matched with what still has an owner.
    pub(crate) fn matched(&self, standing: &MemberStanding) -> impl Iterator<Item = Unit> + '_ {
        let (first, count) = standing.base;
        let units = (first..first + count).chain(standing.extra);
        units.map(|unit| self.unit(unit))
    }

    /// Unclaimed partitions that no member needs to reach P / n: extras for the first to
    /// claim them.
    pub(crate) fn spare(&self) -> &[PartitionIndex] {
        let needed = self.lacking.0 as usize;
        self.unclaimed.get(needed..).unwrap_or_default()
    }

    /// Unclaimed partitions that are reserved for no member: those that have waited for
    /// long, or else those that no member lacks.
    pub(crate) fn leftover(&self) -> &[PartitionIndex] {
        if !self.overdue.is_empty() {
            return &self.overdue;
        }
        let needed = self.lacking.1 as usize;
        self.unclaimed.get(needed..).unwrap_or_default()
    }

    /// The excess of a member is its last partitions, so that all members agree which ones
    /// it is to lose.
    fn unit(&self, unit: u32) -> Unit {
        let unclaimed = self.unclaimed.len() as u32;
        if unit < unclaimed {
            return Unit {
                partition: self.unclaimed[unit as usize],
                is_owned: false,
            };
        }
        let unit = unit - unclaimed;
        let after = self
            .standings
            .partition_point(|standing| standing.excess_before <= unit);
        let giver = &self.standings[after - 1];
        let at = giver.start + giver.share + (unit - giver.excess_before);
        Unit {
            partition: self.owned[at as usize],
            is_owned: true,
        }
    }
}

/// Whether an unclaimed partition has waited for longer than most members take for a
/// cycle. An expired one has been without an owner for long already; a released one has
/// not, and one that never had an owner is not overdue.
fn is_overdue(row: &ListingRow, asked: Timestamp, timing: &GroupTiming) -> bool {
    let wait = if row.owner == NO_OWNER {
        timing.patience
    } else {
        timing.expiration + timing.interval / 2
    };
    row.version != RecordVersion::ABSENT && has_passed(row.modified, asked, wait)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;

    const TIMING: GroupTiming = GroupTiming::new(Duration::from_secs(20), Duration::from_secs(120));
    const NOW: Timestamp = Timestamp(1_000_000);

    /// A census of partitions with these owners, each written this many seconds ago.
    fn census(rows: &[(&str, i64)], members: &[&str]) -> Census {
        let mut listing = OwnershipListing::new(rows.len() as u32);
        for (index, (owner, age)) in rows.iter().enumerate() {
            let modified = Timestamp(NOW.0 - age * 1_000);
            let owner = OwnerId::new(owner);
            listing.put(
                PartitionIndex(index as u32),
                &owner,
                RecordVersion(1),
                modified,
            );
        }
        let members: Vec<_> = members.iter().map(|id| OwnerId::new(id)).collect();
        Census::with_members(listing, &members, NOW, &TIMING)
    }

    fn numbers(partitions: &[PartitionIndex]) -> Vec<u32> {
        partitions.iter().map(|partition| partition.0).collect()
    }

    #[test]
    fn the_living_are_counted_and_the_expired_are_not() {
        let census = census(
            &[("a", 0), ("b", 119), ("c", 120), ("a", 5), ("", 0)],
            &["d"],
        );
        let count = |id| census.count(&OwnerId::new(id));
        assert_eq!(
            [count("a"), count("b"), count("c"), count("d")],
            [Some(2), Some(1), None, Some(0)]
        );
        assert_eq!(census.members(), 3);
        assert_eq!(numbers(census.unclaimed()), [2, 4]);
        assert_eq!(census.spread(), Some((0, 2)));
    }

    #[test]
    fn nothing_is_set_aside_for_a_late_member() {
        let rows = |age| [("a", 0), ("a", 0), ("b", age), ("", 0)];
        let leftover = |age| numbers(census(&rows(age), &[]).leftover());
        assert_eq!(leftover(29), [0; 0]);
        assert_eq!(leftover(30), [3]);
        // A member that is known to live is not late, whatever its records say.
        assert_eq!(numbers(census(&rows(30), &["b"]).leftover()), [0; 0]);
    }

    #[test]
    fn what_has_waited_for_long_is_set_aside_for_nobody() {
        let leftover = |age| numbers(census(&[("a", 0), ("a", 0), age], &["b"]).leftover());
        assert_eq!(leftover(("c", 129)), [0; 0]);
        assert_eq!(leftover(("c", 130)), [2]);
        assert_eq!(leftover(("", 29)), [0; 0]);
        assert_eq!(leftover(("", 30)), [2]);
    }

    #[test]
    fn ranges_of_the_rich_end_where_their_count_does() {
        let rows = [("a", 0), ("b", 0), ("a", 0), ("c", 0), ("a", 0), ("b", 0)];
        let census = census(&rows, &[]);
        assert_eq!(numbers(census.owned_above(2)), [0, 2, 4]);
        assert_eq!(numbers(census.owned_above(1)), [0, 2, 4, 1, 5]);
        assert!(census.owned_above(3).is_empty());
        assert_eq!(census.owned_above(0).len(), 6);
    }

    #[test]
    fn all_deficits_are_matched_with_distinct_units() {
        let rows = [
            ("a", 0),
            ("a", 0),
            ("a", 0),
            ("a", 0),
            ("b", 0),
            ("b", 0),
            ("b", 0),
            ("", 0),
        ];
        let census = census(&rows, &["c", "d"]);
        assert_eq!(census.moves_needed(), 4);
        let mut units = BTreeSet::new();
        for id in ["c", "d"] {
            let standing = census.standing(&OwnerId::new(id)).unwrap();
            units.extend(census.matched(&standing).map(|unit| unit.partition.0));
        }
        assert_eq!(Vec::from_iter(units), [2, 3, 6, 7]);
    }

    #[test]
    fn nobody_at_all_is_no_census_of_anyone() {
        let census = census(&[("", 0), ("", 0)], &[]);
        assert_eq!((census.members(), census.spread()), (0, None));
        assert_eq!(census.moves_needed(), 2);
    }
}

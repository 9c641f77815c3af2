//! The plan against a naive model of the reference rules.
//!
//! The model is written from the rules of the .NET `PartitionLoadBalancer` as text, with
//! maps and without sorting or ranges. It answers with all choices that are permitted;
//! over many draws of chance the plan must make each of them, and no other.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use steadfast_core::clock::Timestamp;
use steadfast_ownership::balance::{BalancePlan, ConditionalWrite, Kind, plan};
use steadfast_ownership::census::Census;
use steadfast_ownership::listing::OwnershipListing;
use steadfast_ownership::record::{OwnerId, PartitionIndex, RecordVersion};
use steadfast_ownership::strategy::{BalanceStep, GroupTiming};

const TIMING: GroupTiming = GroupTiming::new(Duration::from_secs(30), Duration::from_secs(120));
const NOW: i64 = 1_000_000;
const NAMES: [&str; 7] = ["", "me", "a", "b", "c", "d", "e"];

/// One record: whose, how old in seconds, and which version. None: there is no record.
type Row = Option<(&'static str, i64, u64)>;

/// What the rules permit.
#[derive(Debug, PartialEq, Eq)]
struct Permitted {
    adopts: BTreeSet<u32>,
    /// One of these is claimed, if there are any.
    claims: BTreeSet<u32>,
    /// One of these is stolen, if there are any.
    steals: BTreeSet<u32>,
    balanced: bool,
}

/// The rules, as they are written.
fn model(rows: &[Row], me: &str, held: &BTreeSet<u32>) -> Permitted {
    // Expired = age >= expiration, or owner id empty.
    let active: BTreeMap<u32, &str> = (0..)
        .zip(rows)
        .filter_map(|(index, row)| row.map(|(owner, age, _)| (index, owner, age)))
        .filter(|(_, owner, age)| !owner.is_empty() && *age < 120)
        .map(|(index, owner, _)| (index, owner))
        .collect();
    let unclaimed = (0..rows.len() as u32).filter(|index| !active.contains_key(index));
    // Group unexpired records by owner; add ourselves if absent.
    let mut counts = BTreeMap::from([(me, 0)]);
    for owner in active.values() {
        *counts.entry(*owner).or_default() += 1;
    }
    let min = rows.len() as u32 / counts.len() as u32;
    let own = counts[me];
    let owned_by = |permits: &dyn Fn(u32) -> bool| -> BTreeSet<u32> {
        let rich = active.iter().filter(|(_, owner)| permits(counts[**owner]));
        rich.map(|(index, _)| *index).collect()
    };
    let mut permitted = Permitted {
        adopts: (active.iter())
            .filter(|(index, owner)| **owner == me && !held.contains(index))
            .map(|(index, _)| *index)
            .collect(),
        claims: BTreeSet::new(),
        steals: BTreeSet::new(),
        balanced: false,
    };
    // Claim if own < min, or own = min and no owner has fewer than min.
    if own < min || (own == min && counts.values().all(|count| *count >= min)) {
        permitted.claims = unclaimed.collect();
        if permitted.claims.is_empty() {
            permitted.steals = owned_by(&|count| count > min + 1);
            if permitted.steals.is_empty() && own < min {
                permitted.steals = owned_by(&|count| count == min + 1);
            }
        }
    }
    let attempts = permitted.claims.len() + permitted.steals.len();
    permitted.balanced = own >= min && attempts == 0;
    permitted
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    // Ages around the expiration; few owners, so that they differ in what they own.
    let age = prop_oneof![Just(0), Just(119), Just(120), Just(121)];
    let row = (0..NAMES.len(), age, 1..9u64);
    let row = row.prop_map(|(name, age, version)| (NAMES[name], age, version));
    let mostly_fresh = prop::option::weighted(0.9, row);
    let fresh = (0..NAMES.len()).prop_map(|name| Some((NAMES[name], 0, 1)));
    prop_oneof![
        prop::collection::vec(mostly_fresh, 1..24),
        // Everything has a living owner: the cases in which something is stolen.
        prop::collection::vec(
            fresh.prop_filter("owned", |row| !row.unwrap().0.is_empty()),
            1..24
        ),
        skewed(),
    ]
}

/// Everything is owned by few, in runs.
fn skewed() -> impl Strategy<Value = Vec<Row>> {
    let run = (1..NAMES.len(), 1..9usize);
    let runs = prop::collection::vec(run, 1..5);
    runs.prop_map(|runs| {
        let row = |name: usize| Some((NAMES[name], 0, 1));
        let rows = runs
            .into_iter()
            .flat_map(|(name, count)| vec![row(name); count]);
        rows.collect()
    })
}

fn census(rows: &[Row]) -> Census {
    let mut listing = OwnershipListing::new(rows.len() as u32);
    for (index, row) in (0..).zip(rows) {
        if let Some((owner, age, version)) = row {
            let modified = Timestamp(NOW - age * 1_000);
            let owner = OwnerId::new(owner);
            listing.put(
                PartitionIndex(index),
                &owner,
                RecordVersion(*version),
                modified,
            );
        }
    }
    Census::take(listing, Timestamp(NOW), &TIMING)
}

/// What the member holds: its own records, except those at every third place.
fn held(rows: &[Row]) -> BTreeSet<u32> {
    let own = |row: &Row| row.is_some_and(|(owner, age, _)| owner == "me" && age < 120);
    let numbered = (0..).zip(rows);
    let held = numbered.filter(|(index, row)| own(row) && index % 3 != 0);
    held.map(|(index, _)| index).collect()
}

fn draw(
    census: &Census,
    held: &BTreeSet<u32>,
    step: BalanceStep,
    rng: &mut fastrand::Rng,
) -> BalancePlan {
    let held = held.iter().copied().map(PartitionIndex).collect();
    let mut chance = |bound| rng.u32(..bound);
    plan(census, &OwnerId::new("me"), &held, step, &mut chance)
}

fn partitions<'a>(actions: impl Iterator<Item = &'a ConditionalWrite>) -> BTreeSet<u32> {
    actions.map(|action| action.partition.0).collect()
}

fn of_kind(plan: &BalancePlan, is_it: fn(&Kind) -> bool) -> BTreeSet<u32> {
    partitions(plan.actions.iter().filter(|action| is_it(&action.kind)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn single_steps_choose_exactly_what_the_rules_permit(rows in rows(), seed: u64) {
        let census = census(&rows);
        let held = held(&rows);
        let permitted = model(&rows, "me", &held);
        let mut rng = fastrand::Rng::with_seed(seed);
        let (mut claims, mut steals) = (BTreeSet::new(), BTreeSet::new());
        for _ in 0..400 {
            let plan = draw(&census, &held, BalanceStep::One, &mut rng);
            prop_assert_eq!(plan.balanced, permitted.balanced);
            prop_assert_eq!(&of_kind(&plan, |kind| *kind == Kind::Adopt), &permitted.adopts);
            prop_assert!(plan.actions.len() <= permitted.adopts.len() + 1);
            claims.extend(of_kind(&plan, |kind| *kind == Kind::Claim));
            steals.extend(of_kind(&plan, |kind| matches!(kind, Kind::Steal { .. })));
            check_targets(&plan, &rows)?;
        }
        prop_assert_eq!(claims, permitted.claims);
        prop_assert_eq!(steals, permitted.steals);
    }

    #[test]
    fn the_deficit_at_once_is_what_single_steps_claim_one_by_one(rows in rows(), seed: u64) {
        let held = held(&rows);
        let mut rng = fastrand::Rng::with_seed(seed);
        let at_once = draw(&census(&rows), &held, BalanceStep::Deficit, &mut rng);
        check_targets(&at_once, &rows)?;
        let claims = of_kind(&at_once, |kind| *kind == Kind::Claim);
        let permitted = model(&rows, "me", &held);
        prop_assert_eq!(at_once.balanced, permitted.balanced);
        prop_assert!(claims.is_subset(&permitted.claims));
        let steals = of_kind(&at_once, |kind| matches!(kind, Kind::Steal { .. }));
        prop_assert!(steals.is_subset(&permitted.steals));
        prop_assert_eq!(steals.len(), permitted.steals.len().min(1));
        // Play the model until it claims nothing more.
        let (mut rows, mut count) = (rows, 0);
        while let Some(first) = model(&rows, "me", &held).claims.first() {
            rows[*first as usize] = Some(("me", 0, 1));
            count += 1;
        }
        prop_assert_eq!(claims.len(), count);
    }

    /// If all see the same in each round, nothing is moved twice or in vain, and after the
    /// first round everything has an owner. (Nothing has waited for so long that anybody
    /// takes it whether or not he lacks one.)
    #[test]
    fn shares_need_few_rounds_and_the_fewest_moves(mut rows in rows(), seed: u64) {
        for (owner, age, _) in rows.iter_mut().flatten() {
            *age *= i64::from(!owner.is_empty());
        }
        let living: Vec<_> = NAMES[1..].iter().map(|name| OwnerId::new(name)).collect();
        let mut listing = census(&rows).listing().clone();
        let count = |listing: &OwnershipListing| {
            Census::with_members(listing.clone(), &living, Timestamp(NOW), &TIMING)
        };
        let mut rng = fastrand::Rng::with_seed(seed);
        let needed = fewest_moves(&rows);
        let mut moves = 0;
        for _ in 0..4 {
            let census = count(&listing);
            for id in &living {
                let mut chance = |bound| rng.u32(..bound);
                let plan = plan(&census, id, &owned(&census, id), BalanceStep::Share, &mut chance);
                for ConditionalWrite { partition, expected, .. } in plan.actions {
                    let result = listing.swap(partition, expected, id, Timestamp(NOW));
                    moves += usize::from(result.is_ok());
                }
            }
            prop_assert!(count(&listing).unclaimed().is_empty());
        }
        let census = count(&listing);
        let (fewest, most) = census.spread().unwrap();
        prop_assert!(most - fewest <= 1, "from {} to {}", fewest, most);
        prop_assert_eq!(moves, needed);
    }
}

/// What a member owns, expired records left out.
fn owned(census: &Census, id: &OwnerId) -> BTreeSet<PartitionIndex> {
    let all = (0..census.partitions()).map(PartitionIndex);
    all.filter(|index| census.listing().owner(*index) == id)
        .filter(|index| !census.unclaimed().contains(index))
        .collect()
}

/// How many partitions must change hands until all members of `NAMES` have their share.
fn fewest_moves(rows: &[Row]) -> usize {
    let living = &NAMES[1..];
    let count = |name: &&str| {
        let own = |row: &&Row| row.is_some_and(|(owner, age, _)| owner == *name && age < 120);
        rows.iter().filter(own).count()
    };
    let mut counts: Vec<_> = living.iter().map(count).collect();
    counts.sort_unstable();
    counts.reverse();
    let share = |place| rows.len() / living.len() + usize::from(place < rows.len() % living.len());
    let places = counts.iter().enumerate();
    places
        .map(|(place, count)| share(place).saturating_sub(*count))
        .sum()
}

/// Writes name the version of the record they replace; steals name its owner.
fn check_targets(plan: &BalancePlan, rows: &[Row]) -> Result<(), TestCaseError> {
    for action in &plan.actions {
        let row = rows[action.partition.0 as usize];
        prop_assert_eq!(action.expected.0, row.map_or(0, |(_, _, version)| version));
        if let Kind::Steal { from } = &action.kind {
            prop_assert_eq!(from.as_str(), row.unwrap().0);
            prop_assert_ne!(from.as_str(), "me");
        }
    }
    Ok(())
}

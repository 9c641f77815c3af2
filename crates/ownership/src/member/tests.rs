//! A member, one answer at a time.

use super::*;
use crate::listing::OwnershipListing;

const TIMING: GroupTiming = GroupTiming::DOTNET;
const ONLY: PartitionIndex = PartitionIndex(0);

fn at(seconds: i64) -> Timestamp {
    Timestamp(seconds * 1_000)
}

/// A group with one partition whose record has this owner and version since 0.
fn census(owner: &str, version: u64) -> Census {
    let mut listing = OwnershipListing::new(1);
    listing.put(ONLY, &OwnerId::new(owner), RecordVersion(version), at(0));
    Census::take(listing, at(1), &TIMING)
}

fn member() -> GroupMember {
    GroupMember::new(OwnerId::new("me"), Strategy::GREEDY, TIMING)
}

fn plan(member: &mut GroupMember, census: &Census) -> BalancePlan {
    member.plan(census, at(1), &mut |_| 0)
}

/// A member that holds the only partition with version 1, requested at 1 s.
fn holder() -> GroupMember {
    let mut member = member();
    let planned = plan(&mut member, &census("", 0));
    assert_eq!(planned.actions[0].kind, Kind::Claim);
    let change = member.record_outcome(ONLY, WriteOutcome::Written(RecordVersion(1)));
    assert_eq!(change, OwnershipChange::Started);
    member
}

#[test]
fn who_loses_a_claim_has_nothing_and_no_error() {
    let mut member = member();
    plan(&mut member, &census("", 0));
    assert_eq!(
        member.record_outcome(ONLY, WriteOutcome::Conflict),
        OwnershipChange::None
    );
    assert_eq!(member.count(), 0);
}

#[test]
fn a_claim_under_way_is_not_asked_for_again() {
    let mut member = member();
    plan(&mut member, &census("", 0));
    assert_eq!(plan(&mut member, &census("", 0)).actions, []);
}

#[test]
fn a_lost_renewal_stops_the_partition() {
    let mut member = holder();
    let renewals = member.renewals(at(31));
    assert_eq!(renewals[0].expected, RecordVersion(1));
    assert_eq!(member.renewals(at(31)), [], "one write at a time");
    assert_eq!(
        member.record_outcome(ONLY, WriteOutcome::Conflict),
        OwnershipChange::Lost
    );
    assert_eq!(member.count(), 0);
    assert_eq!(
        member.record_outcome(ONLY, WriteOutcome::Conflict),
        OwnershipChange::None
    );
}

#[test]
fn what_was_just_written_is_not_renewed() {
    let mut member = holder();
    assert_eq!(member.renewals(at(15)), []);
    assert_eq!(member.renewals(at(16)).len(), 1);
}

#[test]
fn a_record_with_our_id_is_adopted_after_a_restart() {
    let mut member = member();
    let planned = plan(&mut member, &census("me", 7));
    let adopt = ConditionalWrite {
        partition: ONLY,
        expected: RecordVersion(7),
        kind: Kind::Adopt,
    };
    assert_eq!(planned.actions, [adopt]);
    let change = member.record_outcome(ONLY, WriteOutcome::Written(RecordVersion(8)));
    assert_eq!(change, OwnershipChange::Started);
}

#[test]
fn a_doubtful_renewal_is_settled_by_the_next_listing() {
    let mut doubting = holder();
    doubting.renewals(at(31));
    assert_eq!(
        doubting.record_outcome(ONLY, WriteOutcome::Unknown),
        OwnershipChange::None
    );
    assert_eq!(doubting.renewals(at(61)), [], "its version is not known");

    let mut ours = doubting.clone();
    let planned = plan(&mut ours, &census("me", 2));
    assert_eq!(planned.actions[0].kind, Kind::Adopt);
    let change = ours.record_outcome(ONLY, WriteOutcome::Written(RecordVersion(3)));
    assert_eq!(change, OwnershipChange::None, "it was served all the time");

    let mut theirs = doubting.clone();
    assert_eq!(plan(&mut theirs, &census("other", 2)).lost, [ONLY]);
    assert_eq!(theirs.count(), 0);

    // A listing from before the write proves nothing.
    assert_eq!(plan(&mut doubting, &census("", 0)).lost, []);
    assert_eq!(doubting.count(), 1);
}

#[test]
fn a_holding_lapses_when_it_was_not_renewed_in_time() {
    let mut member = holder();
    assert_eq!(member.expire(at(120)), []);
    assert_eq!(member.expire(at(121)), [ONLY], "asked for at 1 s");
    assert_eq!(member.count(), 0);
}

#[test]
fn leaving_releases_everything_even_what_is_won_late() {
    let mut member = holder();
    member.renewals(at(31));
    assert_eq!(member.release(at(32)), [], "a write is under way");
    let change = member.record_outcome(ONLY, WriteOutcome::Written(RecordVersion(2)));
    assert_eq!(change, OwnershipChange::Late);
    let release = ConditionalWrite {
        partition: ONLY,
        expected: RecordVersion(2),
        kind: Kind::Release,
    };
    assert_eq!(member.release(at(33)), [release]);
    let change = member.record_outcome(ONLY, WriteOutcome::Written(RecordVersion(3)));
    assert_eq!(change, OwnershipChange::Released);
    assert_eq!(plan(&mut member, &census("", 3)).actions, []);
}

#[test]
fn an_owner_hands_over_what_the_other_has_seen_and_nothing_else() {
    let mut member = holder();
    let other = OwnerId::new("other");
    assert_eq!(member.give(ONLY, RecordVersion(7), &other, at(2)), None);
    let given = member.give(ONLY, RecordVersion(1), &other, at(2)).unwrap();
    assert_eq!(given.kind, Kind::Give { to: other.clone() });
    let again = member.give(ONLY, RecordVersion(1), &other, at(2));
    assert_eq!(again, None, "already under way");
    let change = member.record_outcome(ONLY, WriteOutcome::Written(RecordVersion(2)));
    assert_eq!((change, member.count()), (OwnershipChange::Released, 0));
    assert_eq!(member.give(ONLY, RecordVersion(2), &other, at(3)), None);
}

#[test]
fn a_newcomer_waits_for_those_who_came_with_it() {
    let mut member = GroupMember::new(OwnerId::new("me"), Strategy::SHARE, TIMING);
    let planned = plan(&mut member, &census("", 0));
    assert!(planned.is_newcomer);
    let wait = member.wait(&planned, &mut |_| 0);
    assert_eq!(wait, TIMING.interval);
}

#[test]
fn what_an_old_listing_does_not_show_yet_is_counted() {
    let mut listing = OwnershipListing::new(4);
    for (partition, owner) in [(0, "me"), (2, "other"), (3, "other")] {
        let owner = OwnerId::new(owner);
        listing.put(PartitionIndex(partition), &owner, RecordVersion(1), at(0));
    }
    let census = Census::take(listing, at(1), &TIMING);
    let mut member = member();
    // Partition 1 was claimed after the listing was made, and 0 is ours as it says.
    for partition in [0, 1].map(PartitionIndex) {
        member.pending.insert(partition, (Kind::Claim, at(0)));
        member.record_outcome(partition, WriteOutcome::Written(RecordVersion(1)));
    }
    let planned = plan(&mut member, &census);
    assert_eq!((planned.actions, planned.balanced), (vec![], true));
}

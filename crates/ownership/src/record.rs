//! Ownership records and their conditional write.
//!
//! A record says who owns one partition of one group. Every write names the version
//! it replaces and gives the next one, so of two writers with one version exactly
//! one succeeds, and no version ever has two owners. The time is the store's, never
//! a member's. A record is never deleted: giving up writes the empty owner.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use steadfast_core::clock::Timestamp;
use steadfast_core::id::Owner;

/// The scope in which partitions are balanced: a consumer group of an event hub. For the
/// cluster's own partitions it is cluster, space and a fixed name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OwnershipGroup {
    /// The namespace of the event hub.
    pub namespace: Arc<str>,
    /// The event hub.
    pub event_hub: Arc<str>,
    /// The name of the group.
    pub name: Arc<str>,
}

/// The number of a partition inside its group: dense, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PartitionIndex(pub u32);

impl fmt::Display for PartitionIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How often a record was written; ascends with every claim and every renewal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct RecordVersion(pub u64);

impl RecordVersion {
    /// The version of a record that does not exist yet.
    pub const ABSENT: Self = Self(0);

    /// The version that the next write gives.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// The name of a member; the empty one means that there is no owner.
///
/// Members are ordered by a hash of their names first, so that ties are not always
/// decided in favour of the same end of the alphabet.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnerId {
    rank: u64,
    text: Arc<str>,
}

impl OwnerId {
    /// The member with this name.
    pub fn new(text: &str) -> Self {
        Self {
            rank: rank(text),
            text: text.into(),
        }
    }

    /// The owner of a record that was given up.
    pub fn empty() -> Self {
        Self::new("")
    }

    /// Whether this is the empty name.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// FNV-1a: the order of members must be the same in every process and version.
fn rank(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl std::hash::Hash for OwnerId {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        state.write_u64(self.rank);
    }
}

impl From<Owner> for OwnerId {
    /// One incarnation of a node; a restarted node is another member.
    fn from(owner: Owner) -> Self {
        Self::new(&format!("{}-{:032x}", owner.node, owner.incarnation))
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

/// Who owns a partition of a group, and since when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The group.
    pub group: OwnershipGroup,
    /// The partition.
    pub partition: PartitionIndex,
    /// The owner; empty if it was given up.
    pub owner: OwnerId,
    /// The version that the next writer must name.
    pub version: RecordVersion,
    /// When the store accepted the last write.
    pub modified: Timestamp,
}

/// A write that named another version than the record has. It changed nothing; its
/// writer has lost a race and need not report an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conflict {
    /// The version that the record has.
    pub found: RecordVersion,
}

impl Record {
    /// The record after a conditional write at the store's time `now`, to be stored in
    /// place of `current`. [`RecordVersion::ABSENT`] expects that there is none yet.
    pub fn swap(
        current: Option<&Self>,
        key: (&OwnershipGroup, PartitionIndex),
        expected: RecordVersion,
        owner: &OwnerId,
        now: Timestamp,
    ) -> Result<Self, Conflict> {
        let found = current.map_or(RecordVersion::ABSENT, |record| record.version);
        Ok(Self {
            group: key.0.clone(),
            partition: key.1,
            owner: owner.clone(),
            version: next_version(found, expected)?,
            modified: now,
        })
    }

    /// Whether any member may claim the partition: it was given up, or has expired.
    pub fn is_claimable(&self, now: Timestamp, expiration: Duration) -> bool {
        self.owner.is_empty() || has_passed(self.modified, now, expiration)
    }
}

/// The compare of every compare-and-swap: the version to write, or the conflict.
pub(crate) fn next_version(
    found: RecordVersion,
    expected: RecordVersion,
) -> Result<RecordVersion, Conflict> {
    if found != expected {
        return Err(Conflict { found });
    }
    Ok(found.next())
}

/// Whether `span` has passed since a moment; a moment in the future is not past.
pub(crate) fn has_passed(since: Timestamp, now: Timestamp, span: Duration) -> bool {
    i128::from(now.0) - i128::from(since.0) >= span.as_millis() as i128
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPIRATION: Duration = Duration::from_millis(100);
    const FIRST: PartitionIndex = PartitionIndex(0);

    fn group() -> OwnershipGroup {
        OwnershipGroup {
            namespace: "here".into(),
            event_hub: "houses".into(),
            name: "$Default".into(),
        }
    }

    fn claim(
        current: Option<&Record>,
        expected: RecordVersion,
        owner: &str,
    ) -> Result<Record, Conflict> {
        let owner = OwnerId::new(owner);
        Record::swap(
            current,
            (&group(), FIRST),
            expected,
            &owner,
            Timestamp(1_000),
        )
    }

    #[test]
    fn of_two_claims_with_one_version_exactly_one_succeeds() {
        let first = claim(None, RecordVersion::ABSENT, "a").unwrap();
        assert_eq!(first.version, RecordVersion(1));
        let conflict = claim(Some(&first), RecordVersion::ABSENT, "b").unwrap_err();
        assert_eq!(conflict.found, RecordVersion(1));
        let second = claim(Some(&first), RecordVersion(1), "b").unwrap();
        assert_eq!(
            (second.version, second.owner.as_str()),
            (RecordVersion(2), "b")
        );
        assert!(claim(Some(&second), RecordVersion(1), "a").is_err());
    }

    #[test]
    fn a_record_expires_exactly_at_its_expiration() {
        let record = claim(None, RecordVersion::ABSENT, "a").unwrap();
        assert!(!record.is_claimable(Timestamp(1_099), EXPIRATION));
        assert!(record.is_claimable(Timestamp(1_100), EXPIRATION));
        // A reader whose clock is behind the store's sees it as fresh.
        assert!(!record.is_claimable(Timestamp(0), EXPIRATION));
    }

    #[test]
    fn what_was_given_up_is_claimable_at_once() {
        let record = claim(None, RecordVersion::ABSENT, "").unwrap();
        assert!(record.is_claimable(Timestamp(1_000), EXPIRATION));
    }

    #[test]
    fn a_restarted_node_is_another_member() {
        let life = |incarnation| {
            OwnerId::from(Owner {
                node: 7,
                incarnation,
            })
        };
        assert_ne!(life(1), life(2));
        assert_eq!(life(1).as_str(), "7-00000000000000000000000000000001");
    }
}

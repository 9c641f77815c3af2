//! All ownership records of one group, in a compact form.
//!
//! One row per partition whether or not its record exists; owners are numbered, so
//! that counting 32,768 rows compares no texts. A partition without a record has
//! version [`RecordVersion::ABSENT`] and no owner.

use std::collections::HashMap;
use std::sync::Arc;

use steadfast_core::clock::Timestamp;

use crate::record::{Conflict, OwnerId, PartitionIndex, Record, RecordVersion, next_version};

/// The records of a group as a store listed them.
#[derive(Clone, Debug)]
pub struct OwnershipListing {
    owners: Arc<Owners>,
    rows: Vec<ListingRow>,
}

/// One partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListingRow {
    pub(crate) owner: OwnerNumber,
    pub(crate) version: RecordVersion,
    pub(crate) modified: Timestamp,
}

/// The number of an owner in one listing; 0 means no owner.
pub(crate) type OwnerNumber = u32;
pub(crate) const NO_OWNER: OwnerNumber = 0;

#[derive(Clone, Debug)]
struct Owners {
    ids: Vec<OwnerId>,
    numbers: HashMap<OwnerId, OwnerNumber>,
}

impl OwnershipListing {
    /// A group without a record.
    pub fn new(partitions: u32) -> Self {
        let no_owner = OwnerId::empty();
        let row = ListingRow {
            owner: NO_OWNER,
            version: RecordVersion::ABSENT,
            modified: Timestamp(0),
        };
        Self {
            owners: Arc::new(Owners {
                ids: vec![no_owner.clone()],
                numbers: HashMap::from([(no_owner, NO_OWNER)]),
            }),
            rows: vec![row; partitions as usize],
        }
    }

    /// The listing that these records make. Records of partitions that the group does
    /// not have are left out: another version of it may have had more.
    pub fn of(partitions: u32, records: &[Record]) -> Self {
        let mut listing = Self::new(partitions);
        for record in records {
            listing.put(
                record.partition,
                &record.owner,
                record.version,
                record.modified,
            );
        }
        listing
    }

    /// Sets one row; a partition that the group does not have is left out.
    pub fn put(
        &mut self,
        partition: PartitionIndex,
        owner: &OwnerId,
        version: RecordVersion,
        modified: Timestamp,
    ) {
        if partition.0 >= self.partitions() {
            return;
        }
        let owner = self.intern(owner);
        self.rows[partition.0 as usize] = ListingRow {
            owner,
            version,
            modified,
        };
    }

    /// The conditional write of [`Record::swap`] on one row.
    ///
    /// # Panics
    /// If the group has no such partition.
    pub fn swap(
        &mut self,
        partition: PartitionIndex,
        expected: RecordVersion,
        owner: &OwnerId,
        now: Timestamp,
    ) -> Result<RecordVersion, Conflict> {
        let version = next_version(self.row(partition).version, expected)?;
        self.put(partition, owner, version, now);
        Ok(version)
    }

    /// How many partitions the group has.
    pub fn partitions(&self) -> u32 {
        self.rows.len() as u32
    }

    /// The owner of a partition, expired or not.
    pub fn owner(&self, partition: PartitionIndex) -> &OwnerId {
        self.id(self.row(partition).owner)
    }

    /// The version of a partition's record.
    pub fn version(&self, partition: PartitionIndex) -> RecordVersion {
        self.row(partition).version
    }

    /// When a partition's record was last written.
    pub fn modified(&self, partition: PartitionIndex) -> Timestamp {
        self.row(partition).modified
    }

    pub(crate) fn row(&self, partition: PartitionIndex) -> ListingRow {
        self.rows[partition.0 as usize]
    }

    pub(crate) fn rows(&self) -> &[ListingRow] {
        &self.rows
    }

    pub(crate) fn id(&self, number: OwnerNumber) -> &OwnerId {
        &self.owners.ids[number as usize]
    }

    /// How many numbers are assigned, that for no owner included.
    pub(crate) fn numbers(&self) -> usize {
        self.owners.ids.len()
    }

    pub(crate) fn number(&self, id: &OwnerId) -> Option<OwnerNumber> {
        self.owners.numbers.get(id).copied()
    }

    /// The number of an owner, which may be new.
    pub(crate) fn intern(&mut self, id: &OwnerId) -> OwnerNumber {
        if let Some(number) = self.number(id) {
            return number;
        }
        let owners = Arc::make_mut(&mut self.owners);
        let number = owners.ids.len() as OwnerNumber;
        owners.ids.push(id.clone());
        owners.numbers.insert(id.clone(), number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::OwnershipGroup;

    #[test]
    fn records_become_rows_and_strangers_are_left_out() {
        let record = |partition, owner: &str| Record {
            group: OwnershipGroup {
                namespace: "here".into(),
                event_hub: "houses".into(),
                name: "$Default".into(),
            },
            partition: PartitionIndex(partition),
            owner: OwnerId::new(owner),
            version: RecordVersion(3),
            modified: Timestamp(50),
        };
        let listing = OwnershipListing::of(2, &[record(1, "a"), record(2, "b")]);
        assert_eq!(listing.partitions(), 2);
        assert!(listing.owner(PartitionIndex(0)).is_empty());
        assert_eq!(listing.version(PartitionIndex(0)), RecordVersion::ABSENT);
        assert_eq!(listing.owner(PartitionIndex(1)).as_str(), "a");
        assert_eq!(listing.number(&OwnerId::new("b")), None);
    }

    #[test]
    fn a_conflict_changes_nothing() {
        let mut listing = OwnershipListing::new(1);
        let only = PartitionIndex(0);
        let (a, b) = (OwnerId::new("a"), OwnerId::new("b"));
        let version = listing.swap(only, RecordVersion::ABSENT, &a, Timestamp(5));
        assert_eq!(version, Ok(RecordVersion(1)));
        let found = RecordVersion(1);
        let refused = listing.swap(only, RecordVersion::ABSENT, &b, Timestamp(6));
        assert_eq!(refused, Err(Conflict { found }));
        assert_eq!(listing.owner(only), &a);
        assert_eq!(listing.modified(only), Timestamp(5));
    }
}

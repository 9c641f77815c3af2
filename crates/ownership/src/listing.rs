//! All ownership records of one group, in a compact form.
//!
//! One row per partition whether or not its record exists; owners are numbered, so
//! that counting 32,768 rows compares no texts. A partition without a record has
//! version [`Version::ABSENT`] and no owner.

use std::collections::HashMap;
use std::sync::Arc;

use steadfast_core::clock::Timestamp;

use crate::record::{Conflict, OwnerId, PartitionIndex, Record, Version, next_version};

/// The records of a group as a store listed them.
#[derive(Clone, Debug)]
pub struct Listing {
    owners: Arc<Owners>,
    rows: Vec<Row>,
}

/// One partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) owner: Number,
    pub(crate) version: Version,
    pub(crate) modified: Timestamp,
}

/// The number of an owner in one listing; 0 means no owner.
pub(crate) type Number = u32;
pub(crate) const NOBODY: Number = 0;

#[derive(Clone, Debug)]
struct Owners {
    ids: Vec<OwnerId>,
    numbers: HashMap<OwnerId, Number>,
}

impl Listing {
    /// A group without a record.
    pub fn new(partitions: u32) -> Self {
        let nobody = OwnerId::nobody();
        let row = Row {
            owner: NOBODY,
            version: Version::ABSENT,
            modified: Timestamp(0),
        };
        Self {
            owners: Arc::new(Owners {
                ids: vec![nobody.clone()],
                numbers: HashMap::from([(nobody, NOBODY)]),
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
        version: Version,
        modified: Timestamp,
    ) {
        if partition.0 >= self.partitions() {
            return;
        }
        let owner = self.enter(owner);
        self.rows[partition.0 as usize] = Row {
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
        expected: Version,
        owner: &OwnerId,
        now: Timestamp,
    ) -> Result<Version, Conflict> {
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
    pub fn version(&self, partition: PartitionIndex) -> Version {
        self.row(partition).version
    }

    /// When a partition's record was last written.
    pub fn modified(&self, partition: PartitionIndex) -> Timestamp {
        self.row(partition).modified
    }

    pub(crate) fn row(&self, partition: PartitionIndex) -> Row {
        self.rows[partition.0 as usize]
    }

    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    pub(crate) fn id(&self, number: Number) -> &OwnerId {
        &self.owners.ids[number as usize]
    }

    /// How many numbers are assigned, that for no owner included.
    pub(crate) fn numbers(&self) -> usize {
        self.owners.ids.len()
    }

    pub(crate) fn number(&self, id: &OwnerId) -> Option<Number> {
        self.owners.numbers.get(id).copied()
    }

    /// The number of an owner, which may be new.
    pub(crate) fn enter(&mut self, id: &OwnerId) -> Number {
        if let Some(number) = self.number(id) {
            return number;
        }
        let owners = Arc::make_mut(&mut self.owners);
        let number = owners.ids.len() as Number;
        owners.ids.push(id.clone());
        owners.numbers.insert(id.clone(), number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Group;

    #[test]
    fn records_become_rows_and_strangers_are_left_out() {
        let record = |partition, owner: &str| Record {
            group: Group {
                namespace: "here".into(),
                event_hub: "houses".into(),
                name: "$Default".into(),
            },
            partition: PartitionIndex(partition),
            owner: OwnerId::new(owner),
            version: Version(3),
            modified: Timestamp(50),
        };
        let listing = Listing::of(2, &[record(1, "a"), record(2, "b")]);
        assert_eq!(listing.partitions(), 2);
        assert!(listing.owner(PartitionIndex(0)).is_nobody());
        assert_eq!(listing.version(PartitionIndex(0)), Version::ABSENT);
        assert_eq!(listing.owner(PartitionIndex(1)).as_str(), "a");
        assert_eq!(listing.number(&OwnerId::new("b")), None);
    }

    #[test]
    fn a_conflict_changes_nothing() {
        let mut listing = Listing::new(1);
        let only = PartitionIndex(0);
        let (a, b) = (OwnerId::new("a"), OwnerId::new("b"));
        let version = listing.swap(only, Version::ABSENT, &a, Timestamp(5));
        assert_eq!(version, Ok(Version(1)));
        let found = Version(1);
        let refused = listing.swap(only, Version::ABSENT, &b, Timestamp(6));
        assert_eq!(refused, Err(Conflict { found }));
        assert_eq!(listing.owner(only), &a);
        assert_eq!(listing.modified(only), Timestamp(5));
    }
}

//! Identifiers and counters, one type per idea.
//!
//! Two integers side by side are easy to swap, so each gets its own type. All
//! are plain numbers: they compare, hash and copy for free.

use std::fmt;

/// One partition of one space: the unit that has one owner, one epoch, one log.
///
/// The space's number stands in the upper 16 bits, the partition's index in the
/// lower 16, so that an engine needs one number only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Partition(pub u32);

impl Partition {
    /// Names partition `index` of the space with number `space`.
    pub const fn new(space: u16, index: u16) -> Self {
        Self(((space as u32) << 16) | index as u32)
    }

    /// The number of the space.
    pub const fn space(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// The index inside the space.
    pub const fn index(self) -> u16 {
        (self.0 & 0xffff) as u16
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.space(), self.index())
    }
}

/// How often a partition has changed hands; the fence against stale owners.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The epoch that the next successful `acquire` gives.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The place of an entry in its partition's log: dense, from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct EntryNumber(pub u64);

impl EntryNumber {
    /// The number of the entry that follows.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for EntryNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The place of a transaction in its partition's commit order: ascending, from 1.
/// A rolled-back transaction leaves a gap: no number is used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Lsn(pub u64);

impl Lsn {
    /// After every transaction, durable or not.
    pub const MAX: Self = Self(u64::MAX);

    /// The transaction that follows.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A table of a partition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TableId(pub u32);

/// An event stream of a partition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StreamId(pub u32);

/// The number of an event in its stream: dense, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Sequence(pub u64);

impl Sequence {
    /// The number `count` events further on.
    pub const fn plus(self, count: u32) -> Self {
        Self(self.0 + count as u64)
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The place of a batch in its stream, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Offset(pub u64);

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One incarnation of a node: a restarted node is another owner.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Owner {
    /// The node's number in the cluster.
    pub node: u32,
    /// Drawn anew at each start of the process.
    pub incarnation: u128,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_keeps_its_space_and_index() {
        let partition = Partition::new(3, 65535);
        assert_eq!((partition.space(), partition.index()), (3, 65535));
        assert_eq!(partition.to_string(), "3/65535");
    }
}

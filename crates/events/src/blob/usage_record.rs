//! Records of what accounts and containers take.
//!
//! An account's limit is divided into allowances, one per partition that has blobs of it: a
//! partition grows within its allowance without asking. An allowance has a version, so that an
//! old message never replaces a newer one.

use std::collections::HashSet;

use steadfast_collections::schema::Record;
use steadfast_core::limits::BLOB_ENTRY_BYTES;

use crate::blob::record::Block;

/// What an account or a container takes in one partition.
#[derive(Record, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct Usage {
    /// Blobs and uncommitted blocks.
    #[n(0)]
    pub(super) bytes: u64,
    /// Uploads that are no blob and no block yet.
    #[n(1)]
    pub(super) uploads: u64,
    /// Number of blobs.
    #[n(2)]
    pub(super) blobs: u64,
}

/// How a command changes what an account takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct UsageChange {
    pub(super) bytes: i64,
    pub(super) uploads: i64,
    pub(super) blobs: i64,
}

impl UsageChange {
    /// From one number of bytes to another.
    pub(super) fn from(before: u64, after: u64) -> Self {
        Self {
            bytes: after as i64 - before as i64,
            ..Self::default()
        }
    }
}

impl Usage {
    pub(super) fn total(self) -> u64 {
        self.bytes.saturating_add(self.uploads)
    }

    pub(super) fn changed(self, change: UsageChange) -> Self {
        Self {
            bytes: self.bytes.saturating_add_signed(change.bytes),
            uploads: self.uploads.saturating_add_signed(change.uploads),
            blobs: self.blobs.saturating_add_signed(change.blobs),
        }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            uploads: self.uploads.saturating_add(other.uploads),
            blobs: self.blobs.saturating_add(other.blobs),
        }
    }

    pub(super) fn minus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(other.bytes),
            uploads: self.uploads.saturating_sub(other.uploads),
            blobs: self.blobs.saturating_sub(other.blobs),
        }
    }
}

/// A partition's allowance of an account's limit.
#[derive(Record, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct Allowance {
    #[n(0)]
    pub(super) bytes: u64,
    #[n(1)]
    pub(super) version: u64,
    /// The limit of which it is an allowance. Under another limit it is void.
    #[n(2)]
    pub(super) limit: u64,
}

/// The row of an account in a partition.
#[derive(Record, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct AccountRecord {
    #[n(0)]
    pub(super) usage: Usage,
    #[n(1)]
    pub(super) allowance: Allowance,
}

/// The allowance of one partition, as an account's home knows it: never smaller than in the
/// partition itself.
#[derive(Record, Clone, Copy, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct PartitionAllowance {
    #[n(0)]
    pub(super) partition: u32,
    #[n(1)]
    pub(super) allowance: Allowance,
}

/// The row of an account at its home.
#[derive(Record, Clone, Debug, Default)]
#[record(crate = "steadfast_collections", closed)]
pub(super) struct AllowanceList {
    #[n(0)]
    pub(super) allowances: Vec<PartitionAllowance>,
}

/// Whether a partition is counted: one that an earlier version has written is not.
#[derive(Record, Clone, Copy, Debug, Default)]
#[record(crate = "steadfast_collections", closed)]
pub(super) struct CountState {
    #[n(0)]
    pub(super) is_counted: bool,
    /// Deletions since the first one without counts.
    #[n(1)]
    pub(super) changes: u64,
}

/// What a scan has found in one container.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct CountedContainer {
    /// Its name, which begins with the account.
    #[n(0)]
    pub(super) name: String,
    #[n(1)]
    pub(super) id: u64,
    #[n(2)]
    pub(super) usage: Usage,
}

/// The account of a container: its name up to the first slash.
pub(super) fn account_of(container: &[u8]) -> &[u8] {
    let end = container.iter().position(|byte| *byte == b'/');
    &container[..end.unwrap_or(container.len())]
}

/// What blocks count. A block that is listed several times is stored once.
pub(super) fn blocks_bytes(blocks: &[Block]) -> u64 {
    let mut seen = HashSet::with_capacity(blocks.len());
    let bytes = blocks.iter().map(|block| {
        let is_new = seen.insert(block.body);
        BLOB_ENTRY_BYTES + if is_new { block.length } else { 0 }
    });
    bytes.sum()
}

//! The checkpoint of a group in a partition.

use steadfast_collections::schema::Record;
use steadfast_core::clock::Timestamp;

use crate::error::{Error, ErrorKind, Result};

/// The last event that a group has processed.
#[derive(Record, Clone, Copy, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct Checkpoint {
    #[n(0)]
    pub sequence: i64,
    #[n(1)]
    pub offset: i64,
    /// When it was written, by the partition's clock.
    #[n(2)]
    pub modified: Timestamp,
}

/// The condition of a checkpoint write.
#[derive(Record, Clone, Copy, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", name = "Condition", closed)]
pub enum CheckpointCondition {
    /// The checkpoint does not move back.
    #[n(0)]
    Forward,
    /// Unconditional: a replay from an earlier event, or a reset.
    #[n(1)]
    Always,
    /// The checkpoint is at this sequence number now; -1 if there is none. For
    /// exactly-once transactions.
    #[n(2)]
    At(i64),
}

impl CheckpointCondition {
    pub(crate) fn check(self, found: Option<&Checkpoint>, wanted: &Checkpoint) -> Result<()> {
        let now = found.map_or(-1, |checkpoint| checkpoint.sequence);
        let is_met = match self {
            Self::Always => true,
            Self::Forward => wanted.sequence >= now,
            Self::At(expected) => now == expected,
        };
        if is_met {
            return Ok(());
        }
        let words = format!(
            "the checkpoint is at {now}, so it was not moved to {}; read it again",
            wanted.sequence
        );
        Err(Error::new(ErrorKind::CheckpointMoved, words))
    }
}

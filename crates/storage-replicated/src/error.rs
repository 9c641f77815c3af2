//! What can go wrong with copies on other nodes.

use steadfast_core::error::Code;
use steadfast_core::id::Partition;
use steadfast_macros::ErrorKind;
use steadfast_storage::SpecificKind;

/// The kinds of failure that only replicated partitions have; each has its own code.
#[derive(Clone, Debug, PartialEq, Eq, ErrorKind)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Events are published in a space that is mirrored.
    #[error(
        "STF-2020",
        "partition {partition} is copied to other nodes or regions, and events are not; keep them in another space"
    )]
    NotMirrored { partition: Partition },
    /// Too few holders of a volatile partition have answered.
    #[error(
        "STF-2021",
        "too few nodes that hold copies of partition {partition} have answered; try again soon"
    )]
    ReplicasUnavailable { partition: Partition },
}

impl SpecificKind for ErrorKind {
    fn code(&self) -> Code {
        self.code()
    }
}

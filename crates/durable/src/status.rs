//! The states of an instance.

use steadfast_collections::schema::Record;

/// The state of an instance. "Continued as new" is not a state, but an action of a turn.
#[derive(Record, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[record(crate = "steadfast_collections", name = "Status", closed)]
pub enum InstanceStatus {
    /// Created; its first turn has not been committed.
    #[n(0)]
    Pending,
    #[n(1)]
    Running,
    /// Runs nothing until it is resumed.
    #[n(2)]
    Suspended,
    #[n(3)]
    Completed,
    #[n(4)]
    Failed,
    #[n(5)]
    Terminated,
    #[n(6)]
    Canceled,
}

impl InstanceStatus {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Pending,
        Self::Running,
        Self::Suspended,
        Self::Completed,
        Self::Failed,
        Self::Terminated,
        Self::Canceled,
    ];

    /// Whether the instance has ended.
    pub fn is_final(self) -> bool {
        matches!(
            self,
            Self::Completed | Self::Failed | Self::Terminated | Self::Canceled
        )
    }
}

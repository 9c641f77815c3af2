//! Options of a reader.

use crate::position::EventPosition;

/// Options of a reader.
#[derive(Clone, Debug)]
pub struct ReaderOptions {
    /// Names this reader in error messages.
    pub name: String,
    /// With an epoch it is the only reader of the partition in its group.
    pub epoch: Option<i64>,
    pub start: EventPosition,
    /// The group member that reads; the reader lives only while it owns the partition.
    pub owner: Option<String>,
}

impl ReaderOptions {
    /// A reader without an epoch.
    pub fn at(start: EventPosition) -> Self {
        Self {
            name: String::new(),
            epoch: None,
            start,
            owner: None,
        }
    }

    /// With an epoch.
    pub fn epoch(mut self, epoch: i64) -> Self {
        self.epoch = Some(epoch);
        self
    }

    /// With a name.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// For a member of the group.
    pub fn owned_by(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }
}

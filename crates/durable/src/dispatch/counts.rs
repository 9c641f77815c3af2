//! Numbers of workers and work items.

use std::ops::AddAssign;

use steadfast_collections::schema::Record;

use super::entry::WorkKind;

/// Numbers of work items by kind.
#[derive(Record, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct WorkCounts {
    #[n(0)]
    pub orchestrations: u64,
    #[n(1)]
    pub activities: u64,
    #[n(2)]
    pub entities: u64,
}

/// The workers and work items of a task hub.
#[derive(Record, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct TaskHubCounts {
    /// Connected workers.
    #[n(0)]
    pub workers: u64,
    /// Items that wait for a worker, or for their next try.
    #[n(1)]
    pub queued: WorkCounts,
    /// Items that workers have, and those whose results are being committed.
    #[n(2)]
    pub in_progress: WorkCounts,
}

impl WorkCounts {
    /// The number of all items.
    pub fn total(&self) -> u64 {
        self.orchestrations + self.activities + self.entities
    }

    /// The number of items of one kind.
    pub(super) fn of(&mut self, sort: WorkKind) -> &mut u64 {
        match sort {
            WorkKind::Turn => &mut self.orchestrations,
            WorkKind::Activity => &mut self.activities,
            WorkKind::Batch => &mut self.entities,
        }
    }
}

impl AddAssign for WorkCounts {
    fn add_assign(&mut self, more: Self) {
        self.orchestrations += more.orchestrations;
        self.activities += more.activities;
        self.entities += more.entities;
    }
}

impl AddAssign for TaskHubCounts {
    fn add_assign(&mut self, more: Self) {
        self.workers += more.workers;
        self.queued += more.queued;
        self.in_progress += more.in_progress;
    }
}

impl From<[usize; 3]> for WorkCounts {
    fn from([orchestrations, activities, entities]: [usize; 3]) -> Self {
        Self {
            orchestrations: orchestrations as u64,
            activities: activities as u64,
            entities: entities as u64,
        }
    }
}

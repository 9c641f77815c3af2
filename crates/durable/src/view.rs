//! What clients ask for, and what they are shown.

use crate::command::Reuse;
use crate::event::{Parent, Tags, Task};
use crate::failure::Failure;
use crate::moment::Moment;
use crate::status::Status;

/// An instance to be started.
#[derive(Clone, Debug, Default)]
pub struct NewInstance {
    /// Empty: one is made.
    pub instance: String,
    /// The same again with the same instance is the same request.
    pub execution: Option<String>,
    pub task: Task,
    pub scheduled: Option<Moment>,
    /// Instances in these states are replaced; `None`: nothing is.
    pub replaceable: Option<Vec<Status>>,
    /// What becomes of an older instance in one of these states.
    pub reuse: Reuse,
}

impl NewInstance {
    /// An instance whose id is made for it.
    pub fn of(task: Task) -> Self {
        Self {
            task,
            ..Self::default()
        }
    }
}

/// An instance as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    pub instance: String,
    pub execution: String,
    pub name: String,
    pub version: Option<String>,
    pub status: Status,
    pub scheduled: Option<Moment>,
    pub created: Moment,
    pub updated: Moment,
    pub completed: Option<Moment>,
    /// Only if it was asked for.
    pub input: Option<String>,
    /// Only if it was asked for.
    pub output: Option<String>,
    pub custom_status: Option<String>,
    /// A client elsewhere is shown it only if it asks for the output.
    pub failure: Option<Failure>,
    pub parent: Option<Parent>,
    pub tags: Tags,
}

/// Which instances are wanted; ordered by time of creation and id.
#[derive(Clone, Debug, Default)]
pub struct InstanceQuery {
    /// Empty: all.
    pub statuses: Vec<Status>,
    /// Created at this time or later.
    pub from: Option<Moment>,
    /// Created before this time.
    pub to: Option<Moment>,
    pub prefix: String,
    /// 0: as many as usual.
    pub limit: usize,
    /// Where the page before ended.
    pub cursor: Option<String>,
    pub has_payloads: bool,
}

/// Which finished instances are wanted; ordered by time of their end and id.
#[derive(Clone, Debug, Default)]
pub struct FinishedQuery {
    /// Empty: all.
    pub statuses: Vec<Status>,
    pub from: Option<Moment>,
    pub to: Option<Moment>,
    /// 0: as many as usual.
    pub limit: usize,
    pub cursor: Option<String>,
}

/// Some items of a list, and where the next ones begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub next: Option<String>,
}

/// Which instances are to be forgotten; only finished ones are.
#[derive(Clone, Debug, Default)]
pub struct PurgeQuery {
    pub statuses: Vec<Status>,
    pub from: Option<Moment>,
    pub to: Option<Moment>,
}

/// What a purge came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    pub count: u64,
    /// Whether nothing is left that was wanted gone.
    pub is_complete: bool,
}

/// An entity as clients see it: as it was last committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityView {
    pub entity: String,
    pub modified: Moment,
    /// How many requests wait.
    pub backlog: u64,
    /// The orchestration instance that holds the lock.
    pub locked_by: Option<String>,
    /// Whether there is a state.
    pub exists: bool,
    /// Only if it was asked for.
    pub state: Option<String>,
}

/// Which entities are wanted; ordered by id.
#[derive(Clone, Debug, Default)]
pub struct EntityQuery {
    /// `@name@key`, or a part of it from the left; a bare name works too.
    pub prefix: String,
    pub from: Option<Moment>,
    pub to: Option<Moment>,
    pub has_state: bool,
    /// Entities without a state as well.
    pub is_transient_wanted: bool,
    /// 0: as many as usual.
    pub limit: usize,
    pub cursor: Option<String>,
}

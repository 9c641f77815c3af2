//! Queries of clients, and their results.

use crate::command::ReusePolicy;
use crate::event::{Parent, Tags, Task};
use crate::failure::FailureDetails;
use crate::moment::Moment;
use crate::status::InstanceStatus;

/// An instance to start.
#[derive(Clone, Debug, Default)]
pub struct NewInstance {
    /// Empty: an id is generated.
    pub instance: String,
    /// A repeat with the same instance and execution is deduplicated.
    pub execution: Option<String>,
    pub task: Task,
    pub scheduled: Option<Moment>,
    /// Instances in these states are replaced; `None`: none are.
    pub replaceable: Option<Vec<InstanceStatus>>,
    /// What to do with an older instance in one of these states.
    pub reuse: ReusePolicy,
}

impl NewInstance {
    /// An instance with a generated id.
    pub fn of(task: Task) -> Self {
        Self {
            task,
            ..Self::default()
        }
    }
}

/// An instance as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceView {
    pub instance: String,
    pub execution: String,
    pub name: String,
    pub version: Option<String>,
    pub status: InstanceStatus,
    pub scheduled: Option<Moment>,
    pub created: Moment,
    pub updated: Moment,
    pub completed: Option<Moment>,
    /// Set only on request.
    pub input: Option<String>,
    /// Set only on request.
    pub output: Option<String>,
    pub custom_status: Option<String>,
    /// A remote client gets it only with the output.
    pub failure: Option<FailureDetails>,
    pub parent: Option<Parent>,
    pub tags: Tags,
}

/// A query for instances, ordered by time of creation and id.
#[derive(Clone, Debug, Default)]
pub struct InstanceListQuery {
    /// Empty: all.
    pub statuses: Vec<InstanceStatus>,
    /// Created at this time or later.
    pub from: Option<Moment>,
    /// Created before this time.
    pub to: Option<Moment>,
    pub prefix: String,
    /// 0: the default.
    pub limit: usize,
    /// The end of the previous page.
    pub cursor: Option<String>,
    pub has_payloads: bool,
}

/// A query for finished instances, ordered by time of their end and id.
#[derive(Clone, Debug, Default)]
pub struct FinishedListQuery {
    /// Empty: all.
    pub statuses: Vec<InstanceStatus>,
    pub from: Option<Moment>,
    pub to: Option<Moment>,
    /// 0: the default.
    pub limit: usize,
    pub cursor: Option<String>,
}

/// A page of a list, and the cursor of the next page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultPage<T> {
    pub items: Vec<T>,
    pub next: Option<String>,
}

/// A selection of instances to purge; only finished ones are purged.
#[derive(Clone, Debug, Default)]
pub struct PurgeQuery {
    pub statuses: Vec<InstanceStatus>,
    pub from: Option<Moment>,
    pub to: Option<Moment>,
}

/// The result of a purge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PurgeOutcome {
    pub count: u64,
    /// Whether all selected instances were purged.
    pub is_complete: bool,
}

/// An entity as clients see it, as last committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityView {
    pub entity: String,
    pub modified: Moment,
    /// The number of waiting requests.
    pub backlog: u64,
    /// The orchestration instance that holds the lock.
    pub locked_by: Option<String>,
    /// Whether there is a state.
    pub exists: bool,
    /// Set only on request.
    pub state: Option<String>,
}

/// A query for entities, ordered by id.
#[derive(Clone, Debug, Default)]
pub struct EntityListQuery {
    /// `@name@key`, or a part of it from the left; a bare name works too.
    pub prefix: String,
    pub from: Option<Moment>,
    pub to: Option<Moment>,
    pub has_state: bool,
    /// Include entities without a state.
    pub is_transient_wanted: bool,
    /// 0: the default.
    pub limit: usize,
    pub cursor: Option<String>,
}

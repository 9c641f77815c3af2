//! Events in the history of an instance.
//!
//! A history is a list of events, and an orchestration is replayed from it. Events are
//! stored, so field numbers never change their meaning. Absent and empty strings differ:
//! payloads are returned exactly as they were passed.

use std::collections::BTreeMap;

use steadfast_collections::schema::Record;

use crate::failure::FailureDetails;
use crate::moment::Moment;
use crate::status::InstanceStatus;

/// Names and values that travel with an instance.
pub type Tags = BTreeMap<String, String>;

/// The id of events without an action.
pub const NO_ACTION: i32 = -1;

/// One event of a history.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", name = "Event", closed)]
pub struct InstanceEvent {
    /// The action that caused it, or [`NO_ACTION`].
    #[n(0)]
    pub id: i32,
    #[n(1)]
    pub at: Moment,
    #[n(2)]
    pub what: EventKind,
}

/// What happened.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", name = "What", closed)]
pub enum EventKind {
    #[n(0)]
    Started(ExecutionStart),
    #[n(1)]
    Completed {
        #[n(0)]
        status: InstanceStatus,
        #[n(1)]
        result: Option<String>,
        #[n(2)]
        failure: Option<FailureDetails>,
    },
    #[n(2)]
    Terminated {
        #[n(0)]
        input: Option<String>,
        #[n(1)]
        is_recursive: bool,
    },
    #[n(3)]
    TaskScheduled(Task),
    #[n(4)]
    TaskCompleted {
        #[n(0)]
        task: i32,
        #[n(1)]
        result: Option<String>,
    },
    #[n(5)]
    TaskFailed {
        #[n(0)]
        task: i32,
        #[n(1)]
        failure: FailureDetails,
    },
    #[n(6)]
    ChildCreated {
        #[n(0)]
        instance: String,
        #[n(1)]
        task: Task,
    },
    #[n(7)]
    ChildCompleted {
        #[n(0)]
        task: i32,
        #[n(1)]
        result: Option<String>,
    },
    #[n(8)]
    ChildFailed {
        #[n(0)]
        task: i32,
        #[n(1)]
        failure: FailureDetails,
    },
    #[n(9)]
    TimerCreated(Moment),
    #[n(10)]
    TimerFired {
        #[n(0)]
        timer: i32,
        #[n(1)]
        fire_at: Moment,
    },
    /// A turn begins; its time is the orchestration's clock.
    #[n(11)]
    TurnStarted,
    #[n(12)]
    TurnCompleted,
    #[n(13)]
    EventSent {
        #[n(0)]
        instance: String,
        #[n(1)]
        name: String,
        #[n(2)]
        input: Option<String>,
    },
    #[n(14)]
    EventRaised {
        #[n(0)]
        name: String,
        #[n(1)]
        input: Option<String>,
    },
    #[n(15)]
    Suspended(Option<String>),
    #[n(16)]
    Resumed(Option<String>),
    #[n(17)]
    EntitySignaled(EntityOperation),
    #[n(18)]
    EntityCalled(EntityOperation),
    #[n(19)]
    EntityCompleted {
        #[n(0)]
        request: String,
        #[n(1)]
        output: Option<String>,
        #[n(2)]
        is_legacy: bool,
    },
    #[n(20)]
    EntityFailed {
        #[n(0)]
        request: String,
        #[n(1)]
        failure: FailureDetails,
        #[n(2)]
        is_legacy: bool,
    },
    #[n(21)]
    LockRequested(LockRequest),
    #[n(22)]
    LockGranted {
        #[n(0)]
        section: String,
        #[n(1)]
        is_legacy: bool,
    },
    #[n(23)]
    UnlockSent(UnlockRequest),
    /// A failed instance was rewound to the state before its failures.
    #[n(24)]
    Rewound(Option<String>),
    #[n(25)]
    Generic(Option<String>),
}

/// The beginning of an execution.
#[derive(Record, Clone, Debug, Default, PartialEq, Eq)]
#[record(crate = "steadfast_collections", name = "Start", closed)]
pub struct ExecutionStart {
    #[n(0)]
    pub instance: String,
    #[n(1)]
    pub execution: String,
    #[n(2)]
    pub task: Task,
    #[n(3)]
    pub parent: Option<Parent>,
    /// The earliest time to run it.
    #[n(4)]
    pub scheduled: Option<Moment>,
}

/// What to run: an orchestration, an activity or a child.
#[derive(Record, Clone, Debug, Default, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct Task {
    #[n(0)]
    pub name: String,
    #[n(1)]
    pub version: Option<String>,
    #[n(2)]
    pub input: Option<String>,
    #[n(3)]
    pub trace: Option<Trace>,
    #[n(4)]
    pub tags: Tags,
}

/// The parent of an instance.
#[derive(Record, Clone, Debug, Default, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct Parent {
    /// The action of the parent that created it.
    #[n(0)]
    pub task: i32,
    #[n(1)]
    pub name: Option<String>,
    #[n(2)]
    pub version: Option<String>,
    #[n(3)]
    pub instance: String,
    #[n(4)]
    pub execution: Option<String>,
}

/// The context of a distributed trace.
#[derive(Record, Clone, Debug, Default, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct Trace {
    #[n(0)]
    pub parent: String,
    #[n(1)]
    pub span: String,
    #[n(2)]
    pub state: Option<String>,
}

/// An operation requested from an entity.
#[derive(Record, Clone, Debug, Default, PartialEq, Eq)]
#[record(crate = "steadfast_collections", name = "Operation", closed)]
pub struct EntityOperation {
    /// A GUID.
    #[n(0)]
    pub request: String,
    #[n(1)]
    pub name: String,
    #[n(2)]
    pub input: Option<String>,
    /// The earliest time to run it.
    #[n(3)]
    pub scheduled: Option<Moment>,
    /// The entity.
    #[n(4)]
    pub target: String,
    /// The calling orchestration, if there is one.
    #[n(5)]
    pub parent: Option<String>,
    #[n(6)]
    pub parent_execution: Option<String>,
    #[n(7)]
    pub legacy: Option<LegacyMessage>,
    #[n(8)]
    pub trace: Option<Trace>,
}

/// A request for locks on entities.
#[derive(Record, Clone, Debug, Default, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct LockRequest {
    /// The critical section, a GUID.
    #[n(0)]
    pub section: String,
    #[n(1)]
    pub set: Vec<String>,
    #[n(2)]
    pub position: i32,
    #[n(3)]
    pub parent: Option<String>,
    #[n(4)]
    pub legacy: Option<LegacyMessage>,
}

/// The release of a lock.
#[derive(Record, Clone, Debug, Default, PartialEq, Eq)]
#[record(crate = "steadfast_collections", name = "Unlock", closed)]
pub struct UnlockRequest {
    #[n(0)]
    pub section: String,
    /// The entity.
    #[n(1)]
    pub target: String,
    #[n(2)]
    pub parent: Option<String>,
    #[n(3)]
    pub legacy: Option<LegacyMessage>,
}

/// A message to an entity in the format of older workers, an event. Their history
/// contains it as sent, and they receive answers as events.
#[derive(Record, Clone, Debug, Default, PartialEq, Eq)]
#[record(crate = "steadfast_collections", name = "Legacy", closed)]
pub struct LegacyMessage {
    #[n(0)]
    pub name: String,
    #[n(1)]
    pub data: Option<String>,
}

impl InstanceEvent {
    /// Approximate bytes in storage.
    pub fn size(&self) -> usize {
        64 + match &self.what {
            EventKind::Started(start) => start.task.size(),
            EventKind::TaskScheduled(task) | EventKind::ChildCreated { task, .. } => task.size(),
            EventKind::Completed { result: text, .. }
            | EventKind::Terminated { input: text, .. }
            | EventKind::TaskCompleted { result: text, .. }
            | EventKind::ChildCompleted { result: text, .. }
            | EventKind::EventSent { input: text, .. }
            | EventKind::EventRaised { input: text, .. }
            | EventKind::EntityCompleted { output: text, .. }
            | EventKind::Suspended(text)
            | EventKind::Resumed(text)
            | EventKind::Rewound(text)
            | EventKind::Generic(text) => length(text.as_ref()),
            EventKind::EntitySignaled(operation) | EventKind::EntityCalled(operation) => {
                operation.size()
            }
            EventKind::LockRequested(request) => request.set.iter().map(String::len).sum(),
            EventKind::TaskFailed { failure, .. }
            | EventKind::ChildFailed { failure, .. }
            | EventKind::EntityFailed { failure, .. } => failure.size(),
            EventKind::TimerCreated(_)
            | EventKind::TimerFired { .. }
            | EventKind::TurnStarted
            | EventKind::TurnCompleted
            | EventKind::LockGranted { .. }
            | EventKind::UnlockSent(_) => 0,
        }
    }

    /// An event that no action caused.
    pub fn plain(at: impl Into<Moment>, what: EventKind) -> Self {
        Self {
            id: NO_ACTION,
            at: at.into(),
            what,
        }
    }
}

impl Task {
    /// A task with an input, which is written as JSON.
    pub fn new<T: serde::Serialize + ?Sized>(
        name: impl Into<String>,
        input: &T,
    ) -> Result<Self, FailureDetails> {
        let input = serde_json::to_string(input)
            .map_err(|error| FailureDetails::lasting("Serialization", error.to_string()))?;
        Ok(Self {
            name: name.into(),
            input: Some(input),
            ..Self::default()
        })
    }

    /// Approximate bytes in storage.
    pub fn size(&self) -> usize {
        let tags = self
            .tags
            .iter()
            .map(|(name, value)| name.len() + value.len());
        self.name.len() + length(self.input.as_ref()) + tags.sum::<usize>()
    }
}

impl EntityOperation {
    /// Approximate bytes in storage.
    pub fn size(&self) -> usize {
        let legacy = self.legacy.as_ref().and_then(|legacy| legacy.data.as_ref());
        self.name.len() + length(self.input.as_ref()) + length(legacy)
    }
}

fn length(text: Option<&String>) -> usize {
    text.map_or(0, String::len)
}

//! Commands to instances, their replies and work requests.

use bytes::Bytes;
use steadfast_collections::schema::Record;
use steadfast_core::clock::Timestamp;

use crate::action::{self, TurnAction};
use crate::entity::Outcome;
use crate::event::{EventKind, InstanceEvent, Parent, Task};
use crate::failure::FailureDetails;
use crate::moment::Moment;
use crate::rows::{decode, encode, message};
use crate::status::InstanceStatus;
use crate::work::{EntityAction, OrchestrationSpan, QueuedOperation};

/// A command to an instance.
#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub enum Command {
    /// By a client or a parent.
    #[n(0)]
    Start(NewExecution),
    /// By a client: an external event.
    #[n(1)]
    Raise {
        #[n(0)]
        name: String,
        #[n(1)]
        input: Option<String>,
    },
    /// By another instance: an event that this one waits for.
    #[n(2)]
    Deliver(ExternalMessage),
    /// By a timer: a delayed start is due.
    #[n(3)]
    Wake(String),
    #[n(4)]
    Terminate {
        #[n(0)]
        output: Option<String>,
        #[n(1)]
        is_recursive: bool,
        /// Skip an instance that holds locks.
        #[n(2)]
        is_careful: bool,
    },
    #[n(5)]
    Suspend(Option<String>),
    #[n(6)]
    Resume(Option<String>),
    #[n(7)]
    Rewind(Option<String>),
    /// By a parent that was rewound.
    #[n(8)]
    RewindChild {
        #[n(0)]
        reason: Option<String>,
        #[n(1)]
        begin: NewExecution,
    },
    #[n(9)]
    Restart,
    #[n(10)]
    Purge {
        #[n(0)]
        is_recursive: bool,
    },
    /// By a timer: the retention of a finished instance has ended.
    #[n(11)]
    Expire(String),
    /// By a worker.
    #[n(12)]
    TurnDone(TurnCompletion),
    /// By a worker.
    #[n(13)]
    TaskDone(ActivityCompletion),
    /// No worker could run the turn.
    #[n(14)]
    GiveUp {
        #[n(0)]
        execution: String,
        #[n(1)]
        failure: FailureDetails,
    },
    /// To an entity: an operation.
    #[n(15)]
    Request(OperationRequest),
    /// To an entity: a request for its lock.
    #[n(16)]
    Lock(LockCommand),
    /// To an entity: its lock is released.
    #[n(17)]
    Unlock {
        #[n(0)]
        section: String,
    },
    /// To the entities of a lock request, one after the other: cancel the request.
    #[n(18)]
    Release {
        #[n(0)]
        section: String,
        #[n(1)]
        set: Vec<String>,
        #[n(2)]
        position: u32,
    },
    /// To an entity, by a worker.
    #[n(19)]
    BatchDone(BatchCompletion),
    /// To an entity: delete the record of a request that its client no longer repeats.
    #[n(20)]
    Forget(String),
    /// Delete the instance in any state.
    #[n(21)]
    Erase,
    /// To an entity: requests that ran before they were stored.
    #[n(22)]
    Direct(DirectCommit),
    /// To an entity, by a timer: a scheduled request is due.
    #[n(23)]
    Due {
        #[n(0)]
        request: OperationRequest,
        /// When it was sent.
        #[n(1)]
        since: Timestamp,
    },
    /// To a partition: cancel the scheduled requests of this task hub.
    #[n(24)]
    Empty,
}

/// A new execution.
#[derive(Record, Clone, Debug, Default, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct NewExecution {
    #[n(0)]
    pub execution: String,
    #[n(1)]
    pub task: Task,
    #[n(2)]
    pub parent: Option<Parent>,
    #[n(3)]
    pub scheduled: Option<Moment>,
    /// States of an older instance that may be replaced.
    #[n(4)]
    pub replaceable: Vec<InstanceStatus>,
    /// Whether its result is sent to the parent.
    #[n(5)]
    pub is_reported: bool,
    /// Retention of the finished instance in milliseconds; 0: no limit.
    #[n(6)]
    pub kept_ms: u64,
    /// An id that is in use is not reported as an error.
    #[n(7)]
    #[record(default)]
    pub is_quiet: bool,
    /// What to do with an older instance in one of the states above.
    #[n(8)]
    #[record(default)]
    pub reuse: ReusePolicy,
}

/// What to do with an older instance whose state is replaceable.
#[derive(Record, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[record(crate = "steadfast_collections", name = "Reuse", closed)]
pub enum ReusePolicy {
    /// Replace it. An unfinished instance is replaced only if [`InstanceStatus::Terminated`],
    /// the state it ends in, is listed as well.
    #[default]
    #[n(0)]
    Replace,
    /// Replace it, finished or not.
    #[n(1)]
    Terminate,
    /// Keep it, and ignore the start without an error.
    #[n(2)]
    Ignore,
}

/// An event for one execution of an instance, or for the current one.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct ExternalMessage {
    #[n(0)]
    pub execution: Option<String>,
    #[n(1)]
    pub what: EventKind,
}

/// A turn of an orchestration that a worker has run.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct TurnCompletion {
    #[n(0)]
    pub execution: String,
    /// The number of the dispatch.
    #[n(1)]
    pub generation: u64,
    /// The time of the turn.
    #[n(2)]
    pub at: Moment,
    /// The events that the turn took from the inbox.
    #[n(3)]
    pub taken: Vec<InstanceEvent>,
    #[n(4)]
    pub actions: Vec<TurnAction>,
    #[n(5)]
    pub custom_status: Option<String>,
    #[n(6)]
    pub span: Option<OrchestrationSpan>,
}

impl TurnCompletion {
    /// Approximate bytes of its commit.
    pub(crate) fn commit_bytes(&self) -> usize {
        // An event is stored with its row key.
        let taken = self.taken.iter().map(|event| event.size() + 256);
        let status = self.custom_status.as_ref().map_or(0, String::len);
        taken.sum::<usize>() + status + action::commit_bytes(&self.actions)
    }
}

impl Command {
    /// Approximate bytes of the result of a worker.
    pub(crate) fn result_bytes(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        match self {
            Self::TurnDone(done) => done.commit_bytes(),
            Self::BatchDone(done) => {
                let actions: usize = done.actions.iter().map(EntityAction::size).sum();
                let outcomes = done.done.iter().map(|done| match &done.outcome {
                    Outcome::Success(output) => text(output),
                    Outcome::Failure(failure) => failure.size(),
                });
                text(&done.state) + actions + outcomes.sum::<usize>()
            }
            Self::TaskDone(done) => {
                let messages: usize = done.messages.iter().map(Vec::len).sum();
                let failure = done.failure.as_ref().map_or(0, FailureDetails::size);
                text(&done.result) + failure + messages
            }
            _ => 0,
        }
    }
}

/// An activity that a worker has run.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct ActivityCompletion {
    #[n(0)]
    pub execution: String,
    #[n(1)]
    pub number: u64,
    #[n(2)]
    pub result: Option<String>,
    #[n(3)]
    pub failure: Option<FailureDetails>,
    /// Messages to other services, as envelopes.
    #[record(default)]
    #[n(4)]
    pub messages: Vec<Vec<u8>>,
}

/// A request to an entity, and its origin.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct OperationRequest {
    #[n(0)]
    pub requested: QueuedOperation,
    /// Clients may repeat a request, and wait for the answer on this node.
    #[n(1)]
    pub client: Option<ClientOrigin>,
}

impl OperationRequest {
    /// Whether the client may repeat it; repeats are deduplicated.
    pub(crate) fn is_repeatable(&self) -> bool {
        self.client.is_some_and(|client| client.is_repeatable)
    }
}

/// How a client sent a request.
#[derive(Record, Clone, Copy, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct ClientOrigin {
    /// The client may repeat it; repeats are deduplicated.
    #[n(0)]
    pub is_repeatable: bool,
    /// The client waits for the answer.
    #[n(1)]
    pub is_call: bool,
}

/// A request for the locks of several entities, passed from one to the next.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct LockCommand {
    #[n(0)]
    pub section: String,
    /// In the order in which they are locked.
    #[n(1)]
    pub set: Vec<String>,
    #[n(2)]
    pub position: u32,
    #[n(3)]
    pub instance: String,
    #[n(4)]
    pub execution: String,
    #[n(5)]
    pub is_legacy: bool,
}

/// A batch of an entity that a worker has run.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct BatchCompletion {
    #[n(0)]
    pub generation: u64,
    /// The new heads of the front lane and the main lane, after the requests that were
    /// run.
    #[n(1)]
    pub front: u64,
    #[n(2)]
    pub main: u64,
    /// The requests that were run, with their outcomes.
    #[n(3)]
    pub done: Vec<CompletedOperation>,
    #[n(4)]
    pub actions: Vec<EntityAction>,
    /// Whether `state` is the new state; otherwise it stays.
    #[n(5)]
    pub is_changed: bool,
    #[n(6)]
    pub state: Option<String>,
}

/// Results of client requests that ran on the state of an idle entity.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct DirectCommit {
    /// The generation that the entity had.
    #[n(0)]
    pub version: u64,
    /// The requests that clients may repeat.
    #[n(1)]
    pub noted: Vec<RepeatableRequest>,
    #[n(2)]
    pub actions: Vec<EntityAction>,
    /// Whether `state` differs from the previous state.
    #[n(3)]
    pub is_changed: bool,
    #[n(4)]
    pub state: Option<String>,
}

impl DirectCommit {
    /// Whether it writes anything; otherwise all its requests only read.
    pub(crate) fn is_written(&self) -> bool {
        self.is_changed || !self.actions.is_empty() || !self.noted.is_empty()
    }
}

/// A request that a client may repeat, and the answer to a repeat.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct RepeatableRequest {
    #[n(0)]
    pub request: String,
    /// Set for calls.
    #[n(1)]
    pub outcome: Option<Outcome>,
}

/// A request and its outcome.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct CompletedOperation {
    #[n(0)]
    pub request: OperationRequest,
    #[n(1)]
    pub outcome: Outcome,
}

/// The reply of an instance.
#[expect(clippy::large_enum_variant, reason = "the large one is the rare one")]
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub enum Reply {
    #[n(0)]
    Done,
    /// There was nothing to do.
    #[n(1)]
    Ignored,
    /// How the instance was started, for a restart.
    #[n(2)]
    Began(NewExecution),
    /// Deleted; these were its children.
    #[n(3)]
    Purged(Vec<String>),
    /// The outcome of a repeated request.
    #[n(4)]
    Answered(Outcome),
}

message!(Command, Reply);

/// What an instance requests from the dispatcher.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) enum WorkRequest {
    /// A turn, run by a worker.
    #[n(0)]
    Turn {
        #[n(0)]
        generation: u64,
        #[n(1)]
        name: String,
        #[n(2)]
        version: Option<String>,
    },
    #[n(1)]
    Activity(ActivityWorkRequest),
    /// A batch of waiting requests, run by a worker.
    #[n(2)]
    Batch {
        #[n(0)]
        generation: u64,
    },
    /// The instance has a new state: notify the waiters.
    #[n(3)]
    Changed,
    /// Its turn is cancelled.
    #[n(5)]
    Closed,
    /// A client's call has an answer.
    #[n(4)]
    Answer {
        #[n(0)]
        request: String,
        #[n(1)]
        outcome: Outcome,
    },
}

/// An activity to be run.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct ActivityWorkRequest {
    #[n(0)]
    pub(crate) number: u64,
    #[n(1)]
    pub(crate) execution: String,
    #[n(2)]
    pub(crate) id: i32,
    #[n(3)]
    pub(crate) task: Task,
    /// The version of its orchestration.
    #[n(4)]
    #[record(default)]
    pub(crate) inherited: Option<String>,
}

impl WorkRequest {
    pub(crate) fn encode(&self) -> Bytes {
        encode(self)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        decode(bytes).ok()
    }
}

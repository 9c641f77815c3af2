//! Work items for workers, and their results.

use std::collections::BTreeSet;
use std::sync::Arc;

use steadfast_collections::schema::Record;
use steadfast_core::limits;

use crate::action::TurnAction;
use crate::event::{EntityOperation, InstanceEvent, Task};
use crate::failure::FailureDetails;
use crate::moment::Moment;

/// A work item for a worker.
#[derive(Clone, Debug)]
pub struct WorkDelivery {
    /// Identifies this delivery; the result contains it.
    pub token: String,
    pub work: WorkPayload,
}

/// The three kinds of work.
#[derive(Clone, Debug)]
pub enum WorkPayload {
    Turn(Box<TurnWork>),
    Activity(Box<ActivityWork>),
    Batch(Box<BatchWork>),
}

/// One turn of an orchestration.
#[derive(Clone, Debug)]
pub struct TurnWork {
    pub instance: String,
    pub execution: String,
    /// The committed events of earlier turns, one list per turn.
    pub past: Vec<Arc<Vec<InstanceEvent>>>,
    /// The size of `past` in storage.
    pub past_bytes: u64,
    /// The new events of this turn; begins with [`EventKind::TurnStarted`](crate::EventKind).
    pub new: Vec<InstanceEvent>,
    /// The span that the worker returned with the last turn.
    pub span: Option<OrchestrationSpan>,
    /// The worker has requested the history with the item.
    pub is_whole: bool,
    /// The worker has the instance in memory up to here, so `past` is empty.
    pub remembered: Option<HistoryPosition>,
}

/// A position in the history of an execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryPosition {
    /// The number of events.
    pub events: u64,
    /// The time of the last turn.
    pub turn: Moment,
}

/// One activity.
#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub struct ActivityWork {
    #[n(0)]
    pub instance: String,
    #[n(1)]
    pub execution: String,
    /// The action that requested it.
    #[n(2)]
    pub id: i32,
    #[n(3)]
    pub task: Task,
}

/// Operations on one entity, to run one after the other.
#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub struct BatchWork {
    #[n(0)]
    pub entity: String,
    #[n(1)]
    pub execution: String,
    /// `None`: the entity does not exist.
    #[n(2)]
    pub state: Option<String>,
    #[n(3)]
    pub operations: Vec<QueuedOperation>,
}

/// An operation in the queue of an entity.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", name = "Requested", closed)]
pub struct QueuedOperation {
    #[n(0)]
    pub operation: EntityOperation,
    /// Whether it is a signal, which gets no answer.
    #[n(1)]
    pub is_signal: bool,
}

impl QueuedOperation {
    /// The part of it that its executor needs.
    pub(crate) fn to_run(&self) -> Self {
        let EntityOperation {
            request,
            name,
            input,
            ..
        } = &self.operation;
        Self {
            operation: EntityOperation {
                request: request.clone(),
                name: name.clone(),
                input: input.clone(),
                ..EntityOperation::default()
            },
            is_signal: self.is_signal,
        }
    }
}

/// The trace span of an orchestration, stored for its worker.
#[derive(Record, Clone, Debug, Default, PartialEq, Eq)]
#[record(crate = "steadfast_collections", name = "Span", closed)]
pub struct OrchestrationSpan {
    #[n(0)]
    pub id: Option<String>,
    #[n(1)]
    pub started: Option<Moment>,
}

/// The result of a turn.
#[derive(Record, Clone, Debug, Default, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct TurnResult {
    #[n(0)]
    pub actions: Vec<TurnAction>,
    /// Replaces the former status; `None` or empty: there is none.
    #[n(1)]
    pub custom_status: Option<String>,
    /// How many of the new events were processed, if not all of them.
    #[n(2)]
    pub processed: Option<u32>,
    #[n(3)]
    pub span: Option<OrchestrationSpan>,
    /// The worker lacks the history and requests the item with it.
    #[n(4)]
    pub needs_history: bool,
}

/// The result of an activity.
pub type ActivityResult = Result<Option<String>, FailureDetails>;

/// The result of an activity, and the messages that are sent with it.
#[derive(Clone, Debug)]
pub struct ActivityRun {
    pub result: ActivityResult,
    /// Envelopes; none if the activity has failed.
    pub messages: Vec<Vec<u8>>,
}

impl From<ActivityResult> for ActivityRun {
    fn from(result: ActivityResult) -> Self {
        let messages = Vec::new();
        Self { result, messages }
    }
}

/// The result of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchResult {
    /// One per operation; missing ones did not run.
    pub results: Vec<Result<Option<String>, FailureDetails>>,
    pub actions: Vec<EntityAction>,
    /// The new state; `None` deletes the entity.
    pub state: Option<String>,
    /// The batch as a whole failed.
    pub failure: Option<FailureDetails>,
    /// The worker lacks the state and requests the item with it.
    pub needs_state: bool,
}

impl BatchResult {
    /// Whether a payload exceeds its limit, or the whole result does not fit into one commit.
    pub(crate) fn is_too_large(&self) -> bool {
        let results = self.results.iter().map(result_size);
        let actions = self.actions.iter().map(EntityAction::size);
        let state = self.state.as_ref().map_or(0, String::len);
        let (mut longest, mut all) = (0, 0);
        for bytes in results.chain(actions).chain([state]) {
            longest = longest.max(bytes);
            all += bytes + BESIDE;
        }
        longest > limits::PAYLOAD_BYTES || all > limits::BATCH_COMMIT_BYTES
    }
}

/// Bytes of keys and ids that are stored with an answer or a message.
const BESIDE: usize = 512;

/// Approximate bytes of the result of an operation.
pub(crate) fn result_size(result: &Result<Option<String>, FailureDetails>) -> usize {
    match result {
        Ok(output) => output.as_ref().map_or(0, String::len),
        Err(failure) => failure.size(),
    }
}

impl EntityAction {
    /// Approximate bytes of its payload.
    pub(crate) fn size(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        match self {
            Self::Signal(operation) => text(&operation.input),
            Self::Start { task, .. } => text(&task.input),
            Self::Tell(letter) => letter.len(),
        }
    }
}

/// An action of an entity operation.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub enum EntityAction {
    #[n(0)]
    Signal(EntityOperation),
    /// Start an orchestration; an empty id is generated.
    #[n(1)]
    Start {
        #[n(0)]
        instance: String,
        #[n(1)]
        task: Task,
        #[n(2)]
        scheduled: Option<Moment>,
    },
    /// Send a message to another service; the bytes are an envelope.
    #[n(2)]
    Tell(Vec<u8>),
}

/// The options of a worker.
#[derive(Clone, Debug, Default)]
pub struct WorkerOptions {
    /// A display name; may be empty.
    pub name: String,
    /// The address of its client, if it is not in this process.
    pub address: Option<String>,
    /// How many items of each kind it takes at a time; 0: the default.
    pub turns: usize,
    pub activities: usize,
    pub batches: usize,
    /// `None`: everything.
    pub filters: Option<WorkFilters>,
    /// The worker keeps instances in memory between turns, and is not sent the history of one
    /// that it ran last. If it has dropped the instance, it requests the history.
    pub caches_instances: bool,
}

/// The names that a worker has code for. It gets no work of a kind without names. Names
/// and versions are compared without case, as some SDKs do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkFilters {
    pub orchestrations: Vec<WorkFilter>,
    pub activities: Vec<WorkFilter>,
    /// Lower-case names of entities.
    pub entities: BTreeSet<String>,
}

/// A name, and the versions of it that a worker supports; none listed: all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkFilter {
    pub name: String,
    pub versions: Vec<String>,
}

impl WorkFilter {
    /// Whether the worker supports this version of this name.
    pub fn fits(&self, name: &str, version: Option<&str>) -> bool {
        let version = version.unwrap_or("");
        let is_listed = || self.versions.iter().any(|v| is_same(v, version));
        is_same(&self.name, name) && (self.versions.is_empty() || is_listed())
    }
}

/// Whether two names differ in case at most.
fn is_same(one: &str, other: &str) -> bool {
    let is_plain = one.is_ascii() && other.is_ascii();
    one.eq_ignore_ascii_case(other) || !is_plain && one.to_lowercase() == other.to_lowercase()
}

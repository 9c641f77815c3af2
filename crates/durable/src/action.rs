//! Actions that an orchestration requests in a turn.

use steadfast_collections::schema::Record;
use steadfast_core::limits;

use crate::event::{EntityOperation, InstanceEvent, LockRequest, Tags, Task, UnlockRequest};
use crate::failure::FailureDetails;
use crate::moment::Moment;
use crate::status::InstanceStatus;

/// One action, with the number that its results refer to.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", name = "Action", closed)]
pub struct TurnAction {
    #[n(0)]
    pub id: i32,
    #[n(1)]
    pub kind: ActionKind,
}

/// What an action does.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", name = "Deed", closed)]
pub enum ActionKind {
    /// Run an activity.
    #[n(0)]
    Schedule(Task),
    /// Run another orchestration; an empty id is generated.
    #[n(1)]
    Child {
        #[n(0)]
        instance: String,
        #[n(1)]
        task: Task,
    },
    #[n(2)]
    Timer(Moment),
    /// Raise an event at another orchestration.
    #[n(3)]
    Send {
        #[n(0)]
        instance: String,
        #[n(1)]
        name: String,
        #[n(2)]
        input: Option<String>,
    },
    #[n(4)]
    Signal(EntityOperation),
    #[n(5)]
    Call(EntityOperation),
    #[n(6)]
    Lock(LockRequest),
    #[n(7)]
    Unlock(UnlockRequest),
    /// End another orchestration.
    #[n(8)]
    Terminate {
        #[n(0)]
        instance: String,
        #[n(1)]
        reason: Option<String>,
        #[n(2)]
        is_recursive: bool,
    },
    /// End the execution in this state.
    #[n(9)]
    Complete {
        #[n(0)]
        status: InstanceStatus,
        #[n(1)]
        result: Option<String>,
        #[n(2)]
        failure: Option<FailureDetails>,
    },
    /// Restart with a new input and an empty history.
    #[n(10)]
    ContinueAsNew {
        #[n(0)]
        input: Option<String>,
        #[n(1)]
        version: Option<String>,
        /// Events that the new execution receives.
        #[n(2)]
        carry: Vec<InstanceEvent>,
        /// `None` keeps the tags.
        #[n(3)]
        tags: Option<Tags>,
    },
    /// The worker has rewritten the history of a failed instance.
    #[n(11)]
    Rewind(Vec<InstanceEvent>),
}

/// Whether every payload is within its limit.
pub(crate) fn are_payloads_short(actions: &[TurnAction]) -> bool {
    actions
        .iter()
        .all(|action| action.payload() <= limits::PAYLOAD_BYTES)
}

/// About how many bytes actions add to the commit of their turn, with every copy.
pub(crate) fn commit_bytes(actions: &[TurnAction]) -> usize {
    actions.iter().map(TurnAction::commit_bytes).sum()
}

/// Keys, index rows and ids that are stored with an action.
const AROUND: usize = 512;

impl TurnAction {
    /// Whether it ends the execution.
    pub(crate) fn is_end(&self) -> bool {
        matches!(
            self.kind,
            ActionKind::Complete { .. } | ActionKind::ContinueAsNew { .. } | ActionKind::Rewind(_)
        )
    }

    /// The length of its payload.
    fn payload(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        match &self.kind {
            ActionKind::Schedule(task) | ActionKind::Child { task, .. } => text(&task.input),
            ActionKind::Signal(operation) | ActionKind::Call(operation) => text(&operation.input),
            ActionKind::Send { input, .. } | ActionKind::ContinueAsNew { input, .. } => text(input),
            ActionKind::Terminate { reason, .. } => text(reason),
            ActionKind::Complete {
                result, failure, ..
            } => text(result).max(failure.as_ref().map_or(0, FailureDetails::size)),
            ActionKind::Rewind(_)
            | ActionKind::Timer(_)
            | ActionKind::Lock(_)
            | ActionKind::Unlock(_) => 0,
        }
    }

    fn commit_bytes(&self) -> usize {
        let all = |events: &[InstanceEvent]| events.iter().map(InstanceEvent::size).sum::<usize>();
        AROUND
            + match &self.kind {
                // In the history, and in a row of work or a message.
                ActionKind::Schedule(task) | ActionKind::Child { task, .. } => 2 * task.size(),
                ActionKind::Signal(operation) | ActionKind::Call(operation) => 2 * operation.size(),
                ActionKind::Send { .. } | ActionKind::Terminate { .. } => 2 * self.payload(),
                // In the history, beside the instance, and in a message to its parent.
                ActionKind::Complete { .. } => 3 * self.payload(),
                // Beside the instance, and in its inbox.
                ActionKind::ContinueAsNew { carry, .. } => 2 * self.payload() + all(carry),
                ActionKind::Rewind(history) => all(history),
                ActionKind::Lock(request) => 3 * request.set.iter().map(String::len).sum::<usize>(),
                ActionKind::Timer(_) | ActionKind::Unlock(_) => 0,
            }
    }
}

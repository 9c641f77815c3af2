//! Actions that an orchestration requests in a turn.

use steadfast_collections::schema::Record;
use steadfast_core::limits;

use crate::event::{Event, LockRequest, Operation, Tags, Task, Unlock};
use crate::failure::Failure;
use crate::moment::Moment;
use crate::status::Status;

/// One action, with the number that its results refer to.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct Action {
    #[n(0)]
    pub id: i32,
    #[n(1)]
    pub deed: Deed,
}

/// What an action does.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub enum Deed {
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
    Signal(Operation),
    #[n(5)]
    Call(Operation),
    #[n(6)]
    Lock(LockRequest),
    #[n(7)]
    Unlock(Unlock),
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
        status: Status,
        #[n(1)]
        result: Option<String>,
        #[n(2)]
        failure: Option<Failure>,
    },
    /// Begin again with a new input and an empty history.
    #[n(10)]
    ContinueAsNew {
        #[n(0)]
        input: Option<String>,
        #[n(1)]
        version: Option<String>,
        /// Events that the new execution receives.
        #[n(2)]
        carry: Vec<Event>,
        /// `None` keeps the tags.
        #[n(3)]
        tags: Option<Tags>,
    },
    /// The worker has rewritten the history of a failed instance.
    #[n(11)]
    Rewind(Vec<Event>),
}

/// Whether every payload is within its limit.
pub(crate) fn are_payloads_short(actions: &[Action]) -> bool {
    actions
        .iter()
        .all(|action| action.payload() <= limits::PAYLOAD_BYTES)
}

/// About how many bytes actions add to the commit of their turn, with every copy.
pub(crate) fn commit_bytes(actions: &[Action]) -> usize {
    actions.iter().map(Action::commit_bytes).sum()
}

/// Keys, index rows and ids that are stored with an action.
const AROUND: usize = 512;

impl Action {
    /// Whether it ends the execution.
    pub(crate) fn is_end(&self) -> bool {
        matches!(
            self.deed,
            Deed::Complete { .. } | Deed::ContinueAsNew { .. } | Deed::Rewind(_)
        )
    }

    /// The length of its payload.
    fn payload(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        match &self.deed {
            Deed::Schedule(task) | Deed::Child { task, .. } => text(&task.input),
            Deed::Signal(operation) | Deed::Call(operation) => text(&operation.input),
            Deed::Send { input, .. } | Deed::ContinueAsNew { input, .. } => text(input),
            Deed::Terminate { reason, .. } => text(reason),
            Deed::Complete {
                result, failure, ..
            } => text(result).max(failure.as_ref().map_or(0, Failure::size)),
            Deed::Rewind(_) | Deed::Timer(_) | Deed::Lock(_) | Deed::Unlock(_) => 0,
        }
    }

    fn commit_bytes(&self) -> usize {
        let all = |events: &[Event]| events.iter().map(Event::size).sum::<usize>();
        AROUND
            + match &self.deed {
                // In the history, and in a row of work or a message.
                Deed::Schedule(task) | Deed::Child { task, .. } => 2 * task.size(),
                Deed::Signal(operation) | Deed::Call(operation) => 2 * operation.size(),
                Deed::Send { .. } | Deed::Terminate { .. } => 2 * self.payload(),
                // In the history, beside the instance, and in a message to its parent.
                Deed::Complete { .. } => 3 * self.payload(),
                // Beside the instance, and in its inbox.
                Deed::ContinueAsNew { carry, .. } => 2 * self.payload() + all(carry),
                Deed::Rewind(history) => all(history),
                Deed::Lock(request) => 3 * request.set.iter().map(String::len).sum::<usize>(),
                Deed::Timer(_) | Deed::Unlock(_) => 0,
            }
    }
}

//! What an orchestration asks for at the end of a turn.

use steadfast_collections::schema::Record;

use crate::event::{Event, LockRequest, Operation, Tags, Task, Unlock};
use crate::failure::Failure;
use crate::moment::Moment;
use crate::status::Status;

/// One wish, with the number that its results will name.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct Action {
    #[n(0)]
    pub id: i32,
    #[n(1)]
    pub deed: Deed,
}

/// What is wished for.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub enum Deed {
    /// Run an activity.
    #[n(0)]
    Schedule(Task),
    /// Run another orchestration; an empty id is filled in.
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
    /// The end, in this state.
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
        /// Events that the new execution shall get.
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

/// About how many bytes wishes have.
pub(crate) fn bytes(actions: &[Action]) -> usize {
    actions.iter().map(Action::size).sum()
}

impl Action {
    fn size(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let all = |events: &[Event]| events.iter().map(Event::size).sum::<usize>();
        64 + match &self.deed {
            Deed::Schedule(task) | Deed::Child { task, .. } => task.size(),
            Deed::Signal(operation) | Deed::Call(operation) => operation.size(),
            Deed::Send { input, .. } => text(input),
            Deed::Complete { result, .. } => text(result),
            Deed::ContinueAsNew { input, carry, .. } => text(input) + all(carry),
            Deed::Rewind(history) => all(history),
            Deed::Timer(_) | Deed::Lock(_) | Deed::Unlock(_) | Deed::Terminate { .. } => 0,
        }
    }
}

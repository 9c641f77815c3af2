//! What instances are told, answer, and want done.

use bytes::Bytes;
use steadfast_collections::schema::Record;
use steadfast_core::clock::Timestamp;

use crate::action::{self, Action};
use crate::entity::Outcome;
use crate::event::{Event, Parent, Task, What};
use crate::failure::Failure;
use crate::moment::Moment;
use crate::rows::{decode, encode, message};
use crate::status::Status;
use crate::work::{EntityAction, Requested, Span};

/// What an instance is told.
#[derive(Record, Clone, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub enum Ask {
    /// By a client or a parent.
    #[n(0)]
    Start(Begin),
    /// By a client: an event from outside.
    #[n(1)]
    Raise {
        #[n(0)]
        name: String,
        #[n(1)]
        input: Option<String>,
    },
    /// By another instance: something happened that this one waits for.
    #[n(2)]
    Deliver(Letter),
    /// By a timer: the time of a delayed start has come.
    #[n(3)]
    Wake(String),
    #[n(4)]
    Terminate {
        #[n(0)]
        output: Option<String>,
        #[n(1)]
        is_recursive: bool,
        /// Not if it holds locks.
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
        begin: Begin,
    },
    #[n(9)]
    Restart,
    #[n(10)]
    Purge {
        #[n(0)]
        is_recursive: bool,
    },
    /// By a timer: a finished instance has been kept long enough.
    #[n(11)]
    Expire(String),
    /// By a worker.
    #[n(12)]
    TurnDone(TurnDone),
    /// By a worker.
    #[n(13)]
    TaskDone(TaskDone),
    /// A turn could not be had from any worker.
    #[n(14)]
    GiveUp {
        #[n(0)]
        execution: String,
        #[n(1)]
        failure: Failure,
    },
    /// To an entity: an operation.
    #[n(15)]
    Request(Request),
    /// To an entity: a wish for its lock.
    #[n(16)]
    Lock(Lock),
    /// To an entity: its lock is given back.
    #[n(17)]
    Unlock {
        #[n(0)]
        section: String,
    },
    /// To the entities of a lock request, one after the other: forget it.
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
    BatchDone(BatchDone),
    /// To an entity: a client no longer repeats this request.
    #[n(20)]
    Forget(String),
    /// Be gone, whatever happens.
    #[n(21)]
    Erase,
    /// To an entity: requests that were run before they were written down.
    #[n(22)]
    Direct(Direct),
    /// To an entity, by a timer: the time of a request has come.
    #[n(23)]
    Due {
        #[n(0)]
        request: Request,
        /// When it was sent.
        #[n(1)]
        since: Timestamp,
    },
    /// To a partition: whatever waits there for its time in this task hub is void.
    #[n(24)]
    Empty,
}

/// A new execution.
#[derive(Record, Clone, Debug, Default, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct Begin {
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
    pub replaceable: Vec<Status>,
    /// Whether the parent hears of its end.
    #[n(5)]
    pub is_reported: bool,
    /// Finished instances are forgotten after so many milliseconds; 0: never.
    #[n(6)]
    pub kept_ms: u64,
    /// Nobody hears of an id that is taken.
    #[n(7)]
    #[record(default)]
    pub is_quiet: bool,
    /// What becomes of an older instance in one of the states above.
    #[n(8)]
    #[record(default)]
    pub reuse: Reuse,
}

/// What becomes of an older instance whose state a start lists.
#[derive(Record, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub enum Reuse {
    /// It is replaced. One that is not finished is replaced only if
    /// [`Status::Terminated`] is listed as well: the state that it is put into.
    #[default]
    #[n(0)]
    Replace,
    /// It is replaced, finished or not.
    #[n(1)]
    Terminate,
    /// It stays, and the start is void without being refused.
    #[n(2)]
    Ignore,
}

/// An event for one execution of an instance, or for whichever is current.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct Letter {
    #[n(0)]
    pub execution: Option<String>,
    #[n(1)]
    pub what: What,
}

/// A turn of an orchestration that a worker has run.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct TurnDone {
    #[n(0)]
    pub execution: String,
    /// Which dispatch it was.
    #[n(1)]
    pub generation: u64,
    /// The time of the turn.
    #[n(2)]
    pub at: Moment,
    /// The events that the turn took from the inbox.
    #[n(3)]
    pub taken: Vec<Event>,
    #[n(4)]
    pub actions: Vec<Action>,
    #[n(5)]
    pub custom_status: Option<String>,
    #[n(6)]
    pub span: Option<Span>,
}

impl TurnDone {
    /// About how many bytes its commit has.
    pub(crate) fn commit_bytes(&self) -> usize {
        // Keys of rows stand around an event.
        let taken = self.taken.iter().map(|event| event.size() + 256);
        let status = self.custom_status.as_ref().map_or(0, String::len);
        taken.sum::<usize>() + status + action::commit_bytes(&self.actions)
    }
}

/// An activity that a worker has run.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct TaskDone {
    #[n(0)]
    pub execution: String,
    #[n(1)]
    pub number: u64,
    #[n(2)]
    pub result: Option<String>,
    #[n(3)]
    pub failure: Option<Failure>,
}

/// A request to an entity, and who sent it.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct Request {
    #[n(0)]
    pub requested: Requested,
    /// Clients may send a request twice, and wait for an answer in this node.
    #[n(1)]
    pub client: Option<Client>,
}

impl Request {
    /// Whether it may come again, and then counts once.
    pub(crate) fn is_repeatable(&self) -> bool {
        self.client.is_some_and(|client| client.is_repeatable)
    }
}

/// A request from outside.
#[derive(Record, Clone, Copy, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct Client {
    /// It may come again, and then counts once.
    #[n(0)]
    pub is_repeatable: bool,
    /// Somebody waits for the answer.
    #[n(1)]
    pub is_call: bool,
}

/// A wish for the locks of several entities, on its way through them.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct Lock {
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
pub struct BatchDone {
    #[n(0)]
    pub generation: u64,
    /// Where the front lane and the main one begin now: behind what was run.
    #[n(1)]
    pub front: u64,
    #[n(2)]
    pub main: u64,
    /// The requests that were run, and what came of each.
    #[n(3)]
    pub done: Vec<Answered>,
    #[n(4)]
    pub actions: Vec<EntityAction>,
    /// Whether `state` is the new state; otherwise it stays.
    #[n(5)]
    pub is_changed: bool,
    #[n(6)]
    pub state: Option<String>,
}

/// Requests of clients that were run on the state of an idle entity.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct Direct {
    /// The generation that the entity had.
    #[n(0)]
    pub version: u64,
    /// Those that may come again.
    #[n(1)]
    pub noted: Vec<Noted>,
    #[n(2)]
    pub actions: Vec<EntityAction>,
    /// Whether `state` is another one than before.
    #[n(3)]
    pub is_changed: bool,
    #[n(4)]
    pub state: Option<String>,
}

impl Direct {
    /// Whether it leaves a trace; otherwise somebody only looked.
    pub(crate) fn is_written(&self) -> bool {
        self.is_changed || !self.actions.is_empty() || !self.noted.is_empty()
    }
}

/// A request that may come again, and what it is answered with then.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct Noted {
    #[n(0)]
    pub request: String,
    /// Of a call.
    #[n(1)]
    pub outcome: Option<Outcome>,
}

/// A request and what came of it.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub struct Answered {
    #[n(0)]
    pub request: Request,
    #[n(1)]
    pub outcome: Outcome,
}

/// What an instance answers.
#[expect(clippy::large_enum_variant, reason = "the large one is the rare one")]
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub enum Say {
    #[n(0)]
    Done,
    /// There was nothing to do.
    #[n(1)]
    Ignored,
    /// Who it was, for a restart under another id.
    #[n(2)]
    Began(Begin),
    /// Forgotten, and these were its children.
    #[n(3)]
    Purged(Vec<String>),
    /// A repeated request was answered like this.
    #[n(4)]
    Answered(Outcome),
}

message!(Ask, Say);

/// What an instance wants done outside.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) enum Wish {
    /// A worker's turn.
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
    Activity(Order),
    /// A worker's run of waiting requests.
    #[n(2)]
    Batch {
        #[n(0)]
        generation: u64,
    },
    /// The instance has a new state: whoever waits for it may look.
    #[n(3)]
    Changed,
    /// Its turn is no longer wanted.
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
pub(crate) struct Order {
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

impl Wish {
    pub(crate) fn encode(&self) -> Bytes {
        encode(self)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        decode(bytes).ok()
    }
}

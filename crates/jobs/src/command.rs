//! Commands and responses of jobs and collections.

use bytes::Bytes;
use steadfast_collections::schema::Record;
use steadfast_core::codec::Malformed;
use steadfast_partition::Message;

use crate::collection::{Collection, SweepKind};
use crate::definition::{Action, Definition, Policy, Target};
use crate::id::{CollectionId, JobId};
use crate::recurrence::Timing;
use crate::rows;
use crate::status::{Claim, State, Status};

/// The requested configuration of a job.
#[derive(Record, Clone, PartialEq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub struct Draft {
    #[n(0)]
    pub id: JobId,
    #[n(1)]
    pub document: String,
    /// The service sets the anchor.
    #[n(2)]
    pub timing: Timing,
    #[n(3)]
    pub main: Action,
    #[n(4)]
    pub error: Option<Action>,
    #[n(5)]
    pub dead_letter: Option<Target>,
    #[n(6)]
    pub policy: Policy,
    /// `None` keeps the state; a new job is enabled.
    #[n(7)]
    pub state: Option<State>,
}

impl Draft {
    /// All texts of unbounded length.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &[u8]> {
        let actions = [Some(&self.main), self.error.as_ref()];
        let targets = actions.into_iter().flatten().map(|action| &action.target);
        let targets = targets.chain(&self.dead_letter).map(|target| match target {
            Target::Outside(document) => document.as_bytes(),
            Target::Inside { body, .. } => body,
        });
        std::iter::once(self.document.as_bytes()).chain(targets)
    }
}

/// The requested configuration of a collection.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub struct CollectionDraft {
    #[n(0)]
    pub id: CollectionId,
    #[n(1)]
    pub document: String,
    #[n(2)]
    pub most_jobs: Option<u64>,
    /// The new state of its jobs; `None` keeps it.
    #[n(3)]
    pub is_enabled: Option<bool>,
}

/// The precondition of a change.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub enum Expect {
    #[n(0)]
    Nothing,
    #[n(1)]
    Version(u64),
    /// Nothing, and this ticket must still be valid.
    #[n(2)]
    Ticket(u64),
}

/// A job: definition and status.
#[derive(Record, Clone, PartialEq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub struct Job {
    #[n(0)]
    pub definition: Definition,
    #[n(1)]
    pub status: Status,
}

/// A command of the service.
#[derive(Record, Clone, PartialEq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub enum Ask {
    #[n(0)]
    GetCollection,
    #[n(1)]
    PutCollection {
        #[n(0)]
        draft: Box<CollectionDraft>,
        #[n(1)]
        expect: Expect,
    },
    /// Start a sweep over all jobs of a collection.
    #[n(2)]
    Sweep(SweepKind),
    /// A sweep has reached all jobs.
    #[n(3)]
    Swept(u64),
    #[n(4)]
    Get,
    #[n(5)]
    Put {
        #[n(0)]
        draft: Box<Draft>,
        #[n(1)]
        expect: Expect,
    },
    #[n(6)]
    Delete,
    /// Run it now; a repeated request does nothing.
    #[n(7)]
    Run(Option<String>),
    /// Run the occurrences between two times.
    #[n(8)]
    Backfill {
        #[n(0)]
        from: i64,
        #[n(1)]
        until: i64,
    },
    #[n(9)]
    Pause(String),
    #[n(10)]
    Resume,
    /// Apply a sweep to this job.
    #[n(11)]
    SweptBy(SweepKind),
    /// An occurrence is due.
    #[n(12)]
    Due(i64),
    /// The retry of a failed attempt is due.
    #[n(13)]
    Again(u64),
    /// The retention of a finished job has ended.
    #[n(14)]
    Expire,
    #[n(15)]
    Ended(Ended),
    /// An at-most-once attempt is about to start.
    #[n(16)]
    Begin(Claim),
    /// About a collection name shared by a pair of regions.
    #[n(17)]
    Name(Naming),
}

/// A request to reserve a collection name, to a region without the collection.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub enum Naming {
    /// At the first region: issue a ticket to create it.
    #[n(0)]
    Draw {
        #[n(0)]
        above: u64,
    },
    /// At the second region: invalidate this ticket and all earlier ones.
    #[n(1)]
    Void {
        #[n(0)]
        up_to: u64,
    },
}

/// The result of an attempt.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub struct Ended {
    #[n(0)]
    pub claim: Claim,
    #[n(1)]
    pub is_success: bool,
    #[n(2)]
    pub message: String,
    /// Milliseconds since 1970.
    #[n(3)]
    pub started: i64,
    #[n(4)]
    pub ended: i64,
}

/// A response of the service.
#[derive(Record, Clone, PartialEq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub enum Say {
    #[n(0)]
    Done,
    #[n(1)]
    Collection(Box<Collection>),
    #[n(2)]
    Job(Box<Job>),
    /// Whether an attempt may start.
    #[n(3)]
    May(bool),
    /// A ticket to create a collection, or the last invalid one.
    #[n(4)]
    Ticket(u64),
}

impl Message for Ask {
    fn encode(&self) -> Bytes {
        rows::encode(self)
    }

    fn decode(bytes: &Bytes) -> Result<Self, Malformed> {
        rows::decode(bytes).ok_or(Malformed)
    }
}

impl Message for Naming {
    fn encode(&self) -> Bytes {
        rows::encode(self)
    }

    fn decode(bytes: &Bytes) -> Result<Self, Malformed> {
        rows::decode(bytes).ok_or(Malformed)
    }
}

impl Message for Say {
    fn encode(&self) -> Bytes {
        rows::encode(self)
    }

    fn decode(bytes: &Bytes) -> Result<Self, Malformed> {
        rows::decode(bytes).ok_or(Malformed)
    }
}

//! What jobs and collections are told, and what they answer.

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

/// A job as somebody wants it.
#[derive(Record, Clone, PartialEq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub struct Draft {
    #[n(0)]
    pub id: JobId,
    #[n(1)]
    pub document: String,
    /// When it was anchored is the service's own affair.
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
    /// Everything in it that can be long.
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

/// A collection as somebody wants it.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub struct CollectionDraft {
    #[n(0)]
    pub id: CollectionId,
    #[n(1)]
    pub document: String,
    #[n(2)]
    pub most_jobs: Option<u64>,
    /// What to do with its jobs, if the state is to change.
    #[n(3)]
    pub is_enabled: Option<bool>,
}

/// What must be there for a change to happen.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub enum Expect {
    #[n(0)]
    Nothing,
    #[n(1)]
    Version(u64),
    /// Nothing, and this ticket must still count.
    #[n(2)]
    Ticket(u64),
}

/// A job with everything that is known of it.
#[derive(Record, Clone, PartialEq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub struct Job {
    #[n(0)]
    pub definition: Definition,
    #[n(1)]
    pub status: Status,
}

/// What the service is told.
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
    /// Begin to do something to all jobs of a collection.
    #[n(2)]
    Sweep(SweepKind),
    /// It was done to all of them.
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
    /// Run it now; the same request again does nothing.
    #[n(7)]
    Run(Option<String>),
    /// Run what was due between two times.
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
    /// The collection is swept by this.
    #[n(11)]
    SweptBy(SweepKind),
    /// An occurrence is due.
    #[n(12)]
    Due(i64),
    /// A failed attempt of a run is due again.
    #[n(13)]
    Again(u64),
    /// A finished job has been kept long enough.
    #[n(14)]
    Expire,
    #[n(15)]
    Ended(Ended),
    /// An attempt that must not be made twice is about to be made.
    #[n(16)]
    Begin(Claim),
    /// About the name of a collection that two homes share.
    #[n(17)]
    Name(Naming),
}

/// What is asked about the name of a collection, of a home that does not have it.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub enum Naming {
    /// At the first home: a ticket to make it.
    #[n(0)]
    Draw {
        #[n(0)]
        above: u64,
    },
    /// At the second home: make nothing with this ticket or an earlier one.
    #[n(1)]
    Void {
        #[n(0)]
        up_to: u64,
    },
}

/// What came of an attempt.
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

/// What the service answers.
#[derive(Record, Clone, PartialEq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub enum Say {
    #[n(0)]
    Done,
    #[n(1)]
    Collection(Box<Collection>),
    #[n(2)]
    Job(Box<Job>),
    /// Whether an attempt may be made.
    #[n(3)]
    May(bool),
    /// A ticket to make a collection, or up to which they are void.
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

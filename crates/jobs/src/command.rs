//! Commands and responses of jobs and collections.

use bytes::Bytes;
use steadfast_collections::schema::Record;
use steadfast_core::codec::DecodeError;
use steadfast_partition::Message;

use crate::collection::{JobCollection, SweepKind};
use crate::definition::{JobAction, JobDefinition, JobPolicy, Target};
use crate::id::{CollectionId, JobId};
use crate::recurrence::JobTiming;
use crate::rows;
use crate::status::{AttemptId, JobStatus, State};

/// The requested configuration of a job.
#[derive(Record, Clone, PartialEq, Debug)]
#[record(crate = "steadfast_collections", name = "Draft", closed)]
pub struct JobDraft {
    #[n(0)]
    pub id: JobId,
    #[n(1)]
    pub document: String,
    /// The service sets the anchor.
    #[n(2)]
    pub timing: JobTiming,
    #[n(3)]
    pub main: JobAction,
    #[n(4)]
    pub error: Option<JobAction>,
    #[n(5)]
    pub dead_letter: Option<Target>,
    #[n(6)]
    pub policy: JobPolicy,
    /// `None` keeps the state; a new job is enabled.
    #[n(7)]
    pub state: Option<State>,
}

impl JobDraft {
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
#[record(crate = "steadfast_collections", name = "Expect", closed)]
pub enum Precondition {
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
    pub definition: JobDefinition,
    #[n(1)]
    pub status: JobStatus,
}

/// A command of the service.
#[derive(Record, Clone, PartialEq, Debug)]
#[record(crate = "steadfast_collections", name = "Ask", closed)]
pub enum JobCommand {
    #[n(0)]
    GetCollection,
    #[n(1)]
    PutCollection {
        #[n(0)]
        draft: Box<CollectionDraft>,
        #[n(1)]
        expect: Precondition,
    },
    /// Start a sweep over all jobs of a collection.
    #[n(2)]
    Sweep(SweepKind),
    /// A sweep has reached all jobs.
    #[n(3)]
    SweepFinished(u64),
    #[n(4)]
    Get,
    #[n(5)]
    Put {
        #[n(0)]
        draft: Box<JobDraft>,
        #[n(1)]
        expect: Precondition,
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
    ApplySweep(SweepKind),
    /// An occurrence is due.
    #[n(12)]
    Due(i64),
    /// The retry of a failed attempt is due.
    #[n(13)]
    RetryDue(u64),
    /// The retention of a finished job has ended.
    #[n(14)]
    Expire,
    #[n(15)]
    AttemptEnded(AttemptResult),
    /// An at-most-once attempt is about to start.
    #[n(16)]
    Begin(AttemptId),
    /// About a collection name shared by a pair of regions.
    #[n(17)]
    Name(NameRequest),
}

/// A request to reserve a collection name, to a region without the collection.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", name = "Naming", closed)]
pub enum NameRequest {
    /// At the first region: issue a ticket to create it.
    #[n(0)]
    Issue {
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
#[record(crate = "steadfast_collections", name = "Ended", closed)]
pub struct AttemptResult {
    #[n(0)]
    pub claim: AttemptId,
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
#[record(crate = "steadfast_collections", name = "Say", closed)]
pub enum JobResponse {
    #[n(0)]
    Done,
    #[n(1)]
    Collection(Box<JobCollection>),
    #[n(2)]
    Job(Box<Job>),
    /// Whether an attempt may start.
    #[n(3)]
    Permission(bool),
    /// A ticket to create a collection, or the last invalid one.
    #[n(4)]
    Ticket(u64),
}

impl Message for JobCommand {
    fn encode(&self) -> Bytes {
        rows::encode(self)
    }

    fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
        rows::decode(bytes).ok_or(DecodeError)
    }
}

impl Message for NameRequest {
    fn encode(&self) -> Bytes {
        rows::encode(self)
    }

    fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
        rows::decode(bytes).ok_or(DecodeError)
    }
}

impl Message for JobResponse {
    fn encode(&self) -> Bytes {
        rows::encode(self)
    }

    fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
        rows::decode(bytes).ok_or(DecodeError)
    }
}

//! What jobs and collections are told, and what they answer.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use steadfast_core::codec::Malformed;
use steadfast_partition::Message;

use crate::collection::{Collection, SweepKind};
use crate::definition::{Action, Definition, Policy, Target};
use crate::id::{CollectionId, JobId};
use crate::json::json;
use crate::recurrence::Timing;
use crate::status::{Phase, State, Status};

/// A job as somebody wants it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Draft {
    pub id: JobId,
    pub document: String,
    /// When it was anchored is the service's own affair.
    pub timing: Timing,
    pub main: Action,
    pub error: Option<Action>,
    pub dead_letter: Option<Target>,
    pub policy: Policy,
    /// `None` keeps the state; a new job is enabled.
    pub state: Option<State>,
}

/// A collection as somebody wants it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CollectionDraft {
    pub id: CollectionId,
    pub document: String,
    pub most_jobs: Option<u64>,
    /// What to do with its jobs, if the state is to change.
    pub is_enabled: Option<bool>,
}

/// What must be there for a change to happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Expect {
    Nothing,
    Version(u64),
}

/// A job with everything that is known of it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Job {
    pub definition: Definition,
    pub status: Status,
}

/// What the service is told.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Ask {
    GetCollection,
    PutCollection(Box<CollectionDraft>, Expect),
    /// Begin to do something to all jobs of a collection.
    Sweep(SweepKind),
    /// It was done to all of them.
    Swept(u64),
    Get,
    Put(Box<Draft>, Expect),
    Delete,
    /// Run it now; the same request again does nothing.
    Run(Option<String>),
    /// Run what was due between two times.
    Backfill(i64, i64),
    Pause(String),
    Resume,
    /// The collection is swept by this.
    SweptBy(SweepKind),
    /// An occurrence is due.
    Due(i64),
    /// A failed attempt of a run is due again.
    Again(u64),
    /// A finished job has been kept long enough.
    Expire,
    Ended(Ended),
}

/// What came of an attempt.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ended {
    /// Which run, phase and attempt it was.
    pub ordinal: u64,
    pub phase: Phase,
    pub attempt: u32,
    pub is_success: bool,
    pub message: String,
    /// Milliseconds since 1970.
    pub started: i64,
    pub ended: i64,
}

/// What the service answers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Say {
    Done,
    Collection(Box<Collection>),
    Job(Box<Job>),
}

impl Message for Ask {
    fn encode(&self) -> Bytes {
        json(&[], self)
    }

    fn decode(bytes: &Bytes) -> Result<Self, Malformed> {
        serde_json::from_slice(bytes).map_err(|_| Malformed)
    }
}

impl Message for Say {
    fn encode(&self) -> Bytes {
        json(&[], self)
    }

    fn decode(bytes: &Bytes) -> Result<Self, Malformed> {
        serde_json::from_slice(bytes).map_err(|_| Malformed)
    }
}

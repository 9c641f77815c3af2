//! External effects of the job service.
//!
//! A delivery request is the body of a work row: it holds everything that an attempt
//! needs, so that performing it reads nothing. It is stored, so fields never change
//! their meaning.

use bytes::Bytes;
use steadfast_collections::schema::Record;

use crate::collection::Sweep;
use crate::id::{CollectionId, JobId};
use crate::rows;
use crate::status::{OccurrenceSource, RunPhase};

/// The request to deliver one attempt.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", name = "Order", closed)]
pub struct DeliveryRequest {
    /// With the spelling used at creation.
    #[n(0)]
    pub job: JobId,
    /// The time of the occurrence, in milliseconds since 1970.
    #[n(1)]
    pub occurrence: i64,
    #[n(2)]
    pub source: OccurrenceSource,
    /// The number of the occurrence, from 1.
    #[n(3)]
    pub ordinal: u64,
    #[n(4)]
    pub phase: RunPhase,
    /// From 0.
    #[n(5)]
    pub attempt: u32,
    /// The target document, read by the deliverer.
    #[n(6)]
    pub target: String,
    #[n(7)]
    pub timeout_ms: Option<u64>,
    /// For a dead letter: the message of the last attempt.
    #[n(8)]
    pub last: Option<String>,
    /// The tenure of the partition that sends it, set on sending.
    #[record(default)]
    #[n(9)]
    pub epoch: u64,
    /// At most once: its start is recorded before it is sent.
    #[record(default)]
    #[n(10)]
    pub is_once: bool,
}

/// An external effect of the job service.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) enum JobEffect {
    #[n(0)]
    Attempt(Box<DeliveryRequest>),
    /// Run a sweep over all jobs of a collection.
    #[n(1)]
    Sweep {
        #[n(0)]
        collection: CollectionId,
        #[n(1)]
        sweep: Sweep,
    },
    /// Cancel running work.
    #[n(2)]
    Cancel(Vec<u8>),
}

impl JobEffect {
    pub(crate) fn encode(&self) -> Bytes {
        rows::encode(self)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        rows::decode(bytes)
    }
}

/// The id of an attempt's work row, never reused.
pub(crate) fn work_id(job: &[u8], ordinal: u64, phase: RunPhase, attempt: u32) -> Vec<u8> {
    let mut id = job.to_vec();
    id.push(0);
    id.extend_from_slice(&ordinal.to_be_bytes());
    id.push(phase as u8);
    id.extend_from_slice(&attempt.to_be_bytes());
    id
}

/// The id of a sweep's work row.
pub(crate) fn sweep_id(collection: &[u8], number: u64) -> Vec<u8> {
    let mut id = collection.to_vec();
    id.extend_from_slice(b"\0\0");
    id.extend_from_slice(&number.to_be_bytes());
    id
}

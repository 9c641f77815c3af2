//! What the service wants done outside.
//!
//! An order is the body of a work row: it holds everything that an attempt needs,
//! so that performing it reads nothing. Stored, so fields never change their
//! meaning.

use bytes::Bytes;
use steadfast_collections::schema::Record;

use crate::collection::Sweep;
use crate::id::{CollectionId, JobId};
use crate::rows;
use crate::status::{Phase, Source};

/// One attempt.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub struct Order {
    /// In the spelling in which the job was made.
    #[n(0)]
    pub job: JobId,
    /// When it was due, in milliseconds since 1970.
    #[n(1)]
    pub occurrence: i64,
    #[n(2)]
    pub source: Source,
    /// Which occurrence of the job it is, from 1.
    #[n(3)]
    pub ordinal: u64,
    #[n(4)]
    pub phase: Phase,
    /// From 0.
    #[n(5)]
    pub attempt: u32,
    /// What the deliverer reads.
    #[n(6)]
    pub target: String,
    #[n(7)]
    pub timeout_ms: Option<u64>,
    /// For a dead letter: what the last attempt said.
    #[n(8)]
    pub last: Option<String>,
    /// In which tenure of the partition it is sent; filled in when it is.
    #[record(default)]
    #[n(9)]
    pub epoch: u64,
    /// It must not be made twice, so that it begins is recorded first.
    #[record(default)]
    #[n(10)]
    pub is_once: bool,
}

/// What the service wants done outside.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) enum Wish {
    #[n(0)]
    Attempt(Box<Order>),
    /// Do something to all jobs of a collection.
    #[n(1)]
    Sweep {
        #[n(0)]
        collection: CollectionId,
        #[n(1)]
        sweep: Sweep,
    },
    /// Give up work that is under way.
    #[n(2)]
    Cancel(Vec<u8>),
}

impl Wish {
    pub(crate) fn encode(&self) -> Bytes {
        rows::encode(self)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        rows::decode(bytes)
    }
}

/// The name of an attempt's work: unique for ever.
pub(crate) fn work_id(job: &[u8], ordinal: u64, phase: Phase, attempt: u32) -> Vec<u8> {
    let mut id = job.to_vec();
    id.push(0);
    id.extend_from_slice(&ordinal.to_be_bytes());
    id.push(phase as u8);
    id.extend_from_slice(&attempt.to_be_bytes());
    id
}

/// The name of a sweep's work.
pub(crate) fn sweep_id(collection: &[u8], number: u64) -> Vec<u8> {
    let mut id = collection.to_vec();
    id.extend_from_slice(b"\0\0");
    id.extend_from_slice(&number.to_be_bytes());
    id
}

//! A collection of jobs: its document, its state, its quota.

use steadfast_collections::schema::Record;

use crate::id::CollectionId;

/// A collection. Stored, so fields never change their meaning.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", name = "Collection", closed)]
pub struct JobCollection {
    /// With the spelling used at creation.
    #[n(0)]
    pub id: CollectionId,
    /// The document as submitted, for the REST API.
    #[n(1)]
    pub document: String,
    #[n(2)]
    pub is_enabled: bool,
    /// The number of its jobs, and their limit.
    #[n(3)]
    pub jobs: u64,
    #[n(4)]
    pub most_jobs: Option<u64>,
    /// Counts changes.
    #[n(5)]
    pub version: u64,
    /// A running sweep over its jobs.
    #[n(6)]
    pub sweep: Option<Sweep>,
    /// Counts sweeps.
    #[n(7)]
    pub sweeps: u64,
}

/// A sweep over all jobs of a collection.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub struct Sweep {
    #[n(0)]
    pub number: u64,
    #[n(1)]
    pub kind: SweepKind,
}

/// The operation that a sweep applies to all jobs.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub enum SweepKind {
    #[n(0)]
    Enable,
    #[n(1)]
    Disable,
    #[n(2)]
    Delete,
}

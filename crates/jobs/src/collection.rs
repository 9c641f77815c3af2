//! A collection of jobs: its document, its state, its quota.

use steadfast_collections::schema::Record;

use crate::id::CollectionId;

/// A collection. Stored, so fields never change their meaning.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub struct Collection {
    /// In the spelling in which it was made.
    #[n(0)]
    pub id: CollectionId,
    /// What its author wrote, for the face of the service.
    #[n(1)]
    pub document: String,
    #[n(2)]
    pub is_enabled: bool,
    /// How many jobs it has, and may have.
    #[n(3)]
    pub jobs: u64,
    #[n(4)]
    pub most_jobs: Option<u64>,
    /// Counts changes.
    #[n(5)]
    pub version: u64,
    /// Something that is being done to all of its jobs.
    #[n(6)]
    pub sweep: Option<Sweep>,
    /// Counts sweeps.
    #[n(7)]
    pub sweeps: u64,
}

/// What is being done to all jobs of a collection.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
#[record(crate = "steadfast_collections", closed)]
pub struct Sweep {
    #[n(0)]
    pub number: u64,
    #[n(1)]
    pub kind: SweepKind,
}

/// What can be done to all jobs of a collection.
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

//! A collection of jobs: its document, its state, its quota.

use serde::{Deserialize, Serialize};

use crate::id::CollectionId;

/// A collection. Stored, so fields never change their meaning.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Collection {
    /// In the spelling in which it was made.
    pub id: CollectionId,
    /// What its author wrote, for the face of the service.
    pub document: String,
    pub is_enabled: bool,
    /// How many jobs it has, and may have.
    pub jobs: u64,
    pub most_jobs: Option<u64>,
    /// Counts changes.
    pub version: u64,
    /// Something that is being done to all of its jobs.
    pub sweep: Option<Sweep>,
    /// Counts sweeps.
    pub sweeps: u64,
}

/// What is being done to all jobs of a collection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sweep {
    pub number: u64,
    pub kind: SweepKind,
}

/// What can be done to all jobs of a collection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SweepKind {
    Enable,
    Disable,
    Delete,
}

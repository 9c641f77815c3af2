//! Answers what is neither a command nor a read.
//!
//! Some things happen beside a partition, at its owner: waiting for an instance, a
//! user's transaction over collections. A clerk does them for whoever asks, on this
//! node or on another.

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::id::Partition;

use crate::error::Result;

/// Answers requests at the owner of a partition: one per kind of service.
#[async_trait]
pub trait Clerk: Send + Sync + 'static {
    /// Answers a request; this node serves the partition.
    async fn answer(&self, partition: Partition, request: Bytes) -> Result<Bytes>;
}

/// A request for a clerk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inquiry {
    /// Whose clerk is asked.
    pub kind: crate::address::Kind,
    pub body: Bytes,
    /// Whether it may be asked again when nobody knows what became of it.
    pub is_repeatable: bool,
}

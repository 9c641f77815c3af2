//! Handles RPCs at the owner of a partition.
//!
//! Some requests are neither a command nor a read: waiting for an instance, a user's
//! transaction over collections. An owner handler serves them at the partition's owner,
//! for callers on this node and on others.

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::id::Partition;

use crate::error::Result;

/// Handles requests at the owner of a partition: one per kind of service.
#[async_trait]
pub trait OwnerHandler: Send + Sync + 'static {
    /// Handles a request; this node serves the partition.
    async fn handle(&self, partition: Partition, request: Bytes) -> Result<Bytes>;
}

/// A request to an owner handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerRequest {
    /// The kind of service whose handler it is for.
    pub kind: crate::ingress::address::ServiceKind,
    pub body: Bytes,
    /// Whether it may be retried when its outcome is unknown.
    pub is_repeatable: bool,
}

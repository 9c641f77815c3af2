//! The network between nodes.

use async_trait::async_trait;
use bytes::Bytes;
use std::time::Duration;

use steadfast_core::id::Owner;

/// A node in one of its lives, and its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterPeer {
    pub name: String,
    pub owner: Owner,
    /// Host and port.
    pub address: String,
}

/// Why a request got no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkError {
    /// The request was certainly not handled.
    Unsent(String),
    /// The request may have been handled.
    Unknown(String),
}

/// Sends requests to nodes. Both sides are authenticated members of the same cluster.
#[async_trait]
pub trait ClusterNetwork: Send + Sync + 'static {
    /// Sends a request to a node and returns its answer, within a time limit.
    async fn send(
        &self,
        to: &ClusterPeer,
        request: Bytes,
        limit: Duration,
    ) -> Result<Bytes, NetworkError>;
}

//! How bytes get from node to node.

use async_trait::async_trait;
use bytes::Bytes;
use std::time::Duration;

use steadfast_core::id::Owner;

/// A node in one of its lives, and where it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    pub name: String,
    pub owner: Owner,
    /// Host and port.
    pub address: String,
}

/// Why a node gave no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The request was surely not handled.
    Unsent(String),
    /// It may have been.
    Unknown(String),
}

/// Asks nodes. Both sides have proven that they are of the same cluster.
#[async_trait]
pub trait Network: Send + Sync + 'static {
    /// Brings a request to a node and its answer back, within a time.
    async fn send(&self, to: &Peer, request: Bytes, limit: Duration) -> Result<Bytes, Broken>;
}

//! How a cluster stands, for people.

use steadfast_core::id::Epoch;

/// How a cluster stands, as one node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The identity of the cluster.
    pub cluster: String,
    /// The node that says so.
    pub node: String,
    /// All nodes that were ever seen, by name.
    pub nodes: Vec<NodeStanding>,
    /// Partitions that nobody serves.
    pub idle: Vec<u16>,
}

/// How a node stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStanding {
    pub name: String,
    pub number: u32,
    pub address: String,
    /// `up`, `leaving`, `gone` or `silent`.
    pub state: &'static str,
    pub protocol: u32,
    pub schema: u32,
    /// Milliseconds since its record last changed.
    pub seen_ms: u64,
    /// What it serves, with epochs.
    pub partitions: Vec<(u16, Epoch)>,
}

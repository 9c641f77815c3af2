//! The status of a cluster, for operators.

use std::time::Duration;

use steadfast_core::id::{Epoch, Owner};

use super::member_record::State;
use super::members::{Members, SeenMember};

/// The status of a cluster, as one node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterStatus {
    /// The identity of the cluster.
    pub cluster: String,
    /// The node that reports it.
    pub node: String,
    /// All nodes that were ever seen, by name.
    pub nodes: Vec<ClusterNodeStatus>,
    /// Partitions without an owner.
    pub idle: Vec<u16>,
}

/// The status of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNodeStatus {
    pub name: String,
    pub number: u32,
    pub address: String,
    /// `up`, `isolated`, `leaving`, `gone` or `silent`.
    pub state: &'static str,
    pub protocol: u32,
    pub schema: u32,
    /// Milliseconds since its record last changed.
    pub seen_ms: u64,
    /// What it serves, with epochs.
    pub partitions: Vec<(u16, Epoch)>,
}

/// All nodes; for this node its own partitions, not those of its record.
pub(super) fn nodes(
    roster: &Members,
    now: Duration,
    me: Owner,
    serves: impl Fn() -> Vec<(u16, Epoch)>,
) -> Vec<ClusterNodeStatus> {
    let node = |seen: SeenMember| {
        let is_me = seen.member.owner == me;
        let state = match seen.member.state {
            State::Gone => "gone",
            _ if !is_me && roster.is_dead(&seen) => "silent",
            State::Leaving => "leaving",
            State::Up if seen.member.is_isolated => "isolated",
            State::Up => "up",
        };
        let partitions = match state {
            _ if is_me => serves(),
            "gone" | "silent" => Vec::new(),
            _ => seen.member.serves,
        };
        ClusterNodeStatus {
            name: seen.member.identity.name,
            number: seen.member.owner.node,
            address: seen.member.identity.address,
            state,
            protocol: seen.member.identity.protocol,
            schema: seen.member.identity.schema,
            seen_ms: now.saturating_sub(seen.at).as_millis() as u64,
            partitions,
        }
    };
    roster.all().into_iter().map(node).collect()
}

//! Several nodes that share the partitions of a space.
//!
//! Every node has a lease (`lease_renewal`) and a record in the engine (`member_record`,
//! `record_sync`): its identity, its address, and the partitions it serves. All nodes read
//! all records (`members`), and each one decides by the same plan which partitions it
//! acquires (`assignment`); `membership` runs these. A partition is acquired by the
//! engine's compare-and-swap; records are hints. A request for another node's partition is
//! forwarded in one hop (`forwarder`), through a [`ClusterNetwork`] that `protocols`
//! implements. A node that most others do not reach serves nothing (`probe`, `isolation`).

mod assignment;
mod forwarder;
mod isolation;
mod join;
mod lease_renewal;
mod member_record;
mod members;
mod membership;
mod network;
mod pending_moves;
mod plan;
mod probe;
mod record_sync;
mod request;
mod status;

pub use forwarder::Forwarder;
pub use join::{ClusterSetup, JoinError, join};
pub use member_record::{JoinRejection, NodeIdentity, PROTOCOL, SCHEMA, fits};
pub use members::Members;
pub use membership::{Cluster, ClusterCounts, NodeMessageHandler};
pub use network::{ClusterNetwork, ClusterPeer, NetworkError};
pub use status::{ClusterNodeStatus, ClusterStatus};

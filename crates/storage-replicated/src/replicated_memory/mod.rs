//! Volatile partitions in the memory of several nodes.
//!
//! [`ReplicatedMemory`] replicates volatile spaces within a cluster: an engine that acknowledges an
//! entry when a majority of the holders has it. The replica set of a partition is a
//! record of the durable engine ([`ReplicaSet`]).
//!
//! Why no acknowledged entry is lost while enough holders live:
//!
//! - Only the owner of the epoch on the record changes the holders, by compare-and-swap,
//!   and only to nodes with a complete replica. While that is under way, an entry needs
//!   a majority of both sets.
//! - A new owner raises the epoch first, then asks the holders, which refuse earlier
//!   epochs from then on. Once the answers intersect every majority, it begins from the
//!   most advanced replica among them ([`decide`]).
//! - If so many holders are dead that an acknowledged entry may be gone, the partition
//!   begins anew, empty, which collections notice by their incarnation.
//! - A node that is the only holder is fenced by its lease alone.
//!
//! Nodes exchange numbered entries, not redo in steps as regions do: replicas of several
//! nodes have to be comparable. A replica has no log; entries become rows at once. Streams
//! of events are not replicated, and an entry with events is refused.

mod claim;
mod engine;
mod leader_state;
mod message;
mod peers;
mod quorum;
mod reconcile;
mod replica_set;
mod stream;

pub use engine::{ReplicatedMemory, ReplicationSetup};
pub use peers::ClusterPeers;
pub use quorum::{COPIES, ClaimDecision, ReplicaReport, decide, majority, read_quorum};
pub use replica_set::ReplicaSet;

pub use steadfast_storage::replica_content::ReplicaPosition;

#[cfg(test)]
mod tests;

//! The volatile space: partitions in memory.
//!
//! A volatile partition belongs to the owner of the partition with the same index in
//! the main space, so requests are routed in the same way, and leases and the plan are
//! those of the cluster. In a cluster its entries are replicated to other nodes
//! ([`ReplicaPeers`]).

mod batching;
mod replica_peers;
mod space;

pub use replica_peers::ReplicaPeers;
pub use space::{SPACE, VolatileSpace};

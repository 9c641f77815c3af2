//! The volatile space: partitions in memory.
//!
//! A volatile partition belongs to the owner of the partition with the same index in
//! the main space, so requests are routed in the same way, and leases and the plan are
//! those of the cluster. In a cluster its entries are replicated to other nodes
//! ([`Fellows`]).

mod bundle;
mod fellows;
mod space;

pub use fellows::Fellows;
pub use space::{SPACE, Volatile};

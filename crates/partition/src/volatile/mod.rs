//! The volatile space: partitions in memory.
//!
//! A volatile partition belongs to whoever has the one of the same index in the main
//! space, so requests find it in the same way, and leases and the plan are those of the
//! cluster. In a cluster its entries are copied to other nodes ([`Fellows`]).

mod bundle;
mod fellows;
mod space;

pub use fellows::Fellows;
pub use space::{SPACE, Volatile};

//! Partitions over several PostgreSQL clusters.
//!
//! No transaction leaves its partition, so each shard is a cluster by itself. Shard 0
//! holds the records of the whole: who the nodes are, and which shard has what.

mod engine;
mod map;
mod open;

pub use engine::ShardedEngine;

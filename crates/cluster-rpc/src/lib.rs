//! Node to node: gRPC between members of one cluster.
//!
//! Both sides of a connection prove that they have the cluster key before any other
//! request (`proof`). Then one side sends requests and the other responds; nothing is
//! forwarded, and no state outlives the connection.
//!
//! # Tests
//!
//! - `tests/cluster_talk.rs`: admission between nodes, by key, cluster, version and
//!   certificate.

mod client;
mod credentials;
mod proof;
mod server;
mod trust;

pub use client::ClusterClient;
pub use credentials::Credentials;
pub use server::{PeerHandler, serve};

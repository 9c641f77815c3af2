//! Node to node: gRPC between members of one cluster.
//!
//! Both sides of a connection prove that they have the cluster key before anything
//! else is said (`proof`). Then one side asks and the other answers; nothing is
//! sent on, and nothing outlives the connection.

mod client;
mod credentials;
mod proof;
mod server;
mod trust;

pub use client::Wire;
pub use credentials::Credentials;
pub use server::{Answer, serve};

//! A Rust worker and client of a remote server.
//!
//! They speak the protocol of the SDKs. The worker runs functions like an embedded node
//! does, with the same replay.

mod channel;
mod chunks;
mod client;
mod error;
#[allow(unreachable_pub, unused_qualifications, reason = "it is generated")]
mod generated;
mod results;
mod target;
mod worker;

pub use client::TaskHubClient;
pub use worker::{TaskHubWorker, WorkerBuilder};

//! A Rust worker and client of a remote server.
//!
//! They speak the protocol of the SDKs. The worker runs functions like an embedded node
//! does, with the same replay.

mod channel;
mod chunks;
mod client;
mod error;
mod results;
mod target;
mod worker;

pub use client::TaskHubClient;
pub use worker::{TaskHubWorker, WorkerBuilder};

//! A worker and a client in Rust, of a server elsewhere.
//!
//! They speak what the SDKs speak. The worker runs the same functions as a node
//! does in its own process: the replay is one and the same.

mod channel;
mod chunks;
mod client;
mod outcome;
mod results;
mod target;
mod worker;

pub use client::Client;
pub use worker::{Worker, WorkerBuilder};

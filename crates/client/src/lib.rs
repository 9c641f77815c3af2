//! Clients of a server: task hubs in Rust, and AMQP.
//!
//! `durabletask/target.rs` parses the connection string, `durabletask/channel.rs` keeps one
//! HTTP/2 connection, `durabletask/worker.rs` opens one stream after the other and runs the
//! work items by `crates/durable/src/native/runner.rs`, `durabletask/chunks.rs` splits long
//! results, `durabletask/results.rs` sends waiting results together,
//! `durabletask/client.rs` is the client. Messages are those of `durabletask-messages`.
//!
//! `amqp.rs` is a small client for load, tests and commands.

pub mod amqp;
pub mod durabletask;

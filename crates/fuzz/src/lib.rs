//! Fuzz targets: whole sessions against servers in memory.
//!
//! Each target starts a server on the memory engine and on paused time, sends it one
//! input as a client would, and then a valid request. One input always meets a new
//! server, so an input that fails once fails again.
//!
//! The same targets run in two ways: by `tests/sessions.rs`, which replays the corpus and
//! mutates it, and by libFuzzer (the workspace `fuzz/`), which is guided by coverage.
//!
//! # Tests
//!
//! `crates/fuzz/tests` runs every kind of session, the kept corpus and mutations of it;
//! `fuzz/` runs the same targets under libFuzzer.

mod amqp;
mod blob;
mod connection;
mod durable;
mod handshake;
mod http;
mod hub;
mod links;
mod mutate;
mod node;
mod peers;
mod publish;
mod records;
mod requests;
mod scheduler;
mod session;
mod signalr;
mod target;
mod time;
mod tokens;
mod websocket;

pub use mutate::Mutator;
pub use session::{MemoryBound, Session, run};
pub use target::{TARGETS, Target, corpus, find};

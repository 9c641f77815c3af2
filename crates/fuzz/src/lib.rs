//! Fuzz targets: whole sessions against servers in memory.
//!
//! Each target starts a server on the memory engine and on paused time, has it take one
//! input as a client would send it, and then asks it for something else. One input
//! always meets a new server, so an input that fails once fails again.
//!
//! `tests/sessions.rs` replays the corpus and mutates it.

mod amqp;
mod connection;
mod durable;
mod http;
mod hub;
mod links;
mod mutate;
mod node;
mod peers;
mod records;
mod scheduler;
mod session;
mod signalr;
mod target;
mod time;
mod tokens;

pub use mutate::Mutator;
pub use target::{TARGETS, Target, corpus, find};

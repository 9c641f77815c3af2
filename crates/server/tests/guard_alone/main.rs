//! Attacks on the binary that measure latency and memory.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "tests")]

#[path = "../running/mod.rs"]
mod running;
#[path = "../strangers/mod.rs"]
mod strangers;

mod attacks;
mod connections;
mod memory;

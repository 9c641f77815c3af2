//! Tests of the binary that need the machine to themselves.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../running/mod.rs"]
mod running;

mod bench;
mod idle;
mod memory;

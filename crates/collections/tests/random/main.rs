//! Random work against models, checkers and a scheduler.
//!
//! A failing case prints its seed or its shrunken steps.

#![expect(clippy::unwrap_used, reason = "tests")]

mod allocations;
mod cancel;
#[path = "../engines/memory.rs"]
mod engine;
mod ground;
mod model;
mod schedule;

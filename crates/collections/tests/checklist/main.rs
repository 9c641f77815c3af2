//! The checklist of the collections, one module per part.
//!
//! Every test carries the number of its item, and is asked of PostgreSQL, too, in
//! `postgres_collections.rs`. Time is virtual: time-outs run on
//! the runtime's paused clock, ages on a clock that the test moves.

#![expect(clippy::unwrap_used, reason = "tests")]

mod counted;
mod deadlocks;
mod dictionary;
#[path = "../engines/memory.rs"]
mod engine;
mod errors;
mod locks;
mod log;
mod notices;
mod queues;
mod services;
mod site;
mod state;
mod transaction;

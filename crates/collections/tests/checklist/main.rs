//! The checklist of the collections, one module per part.
//!
//! Every test carries the number of its item. Time is virtual: time-outs run on
//! the runtime's paused clock, ages on a clock that the test moves.

#![expect(clippy::unwrap_used, reason = "tests")]

mod dictionary;
mod errors;
mod locks;
mod log;
mod notices;
mod queues;
mod services;
mod site;
mod state;
mod transaction;

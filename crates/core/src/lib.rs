//! The ground that every Steadfast crate stands on.
//!
//! Identifiers, clock, codec, error codes and limits. Nothing here is
//! asynchronous and nothing here does I/O: time, randomness and the network are
//! passed in by whoever needs them.

pub mod clock;
pub mod codec;
pub mod error;
pub mod id;
pub mod limits;
pub mod task;

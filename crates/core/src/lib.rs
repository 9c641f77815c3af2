//! The base of every Steadfast crate.
//!
//! Identifiers, clock, calendar, times as text, codec, error codes, limits, back-off,
//! hexadecimal digits and task names. Nothing here waits and nothing here does I/O: the caller passes in time,
//! randomness and the network.

pub mod backoff;
pub mod calendar;
pub mod clock;
pub mod codec;
pub mod error;
pub mod hex;
pub mod id;
pub mod iso;
pub mod limits;
pub mod task;

//! Recurrence against an oracle; runs on a virtual clock.
#![allow(clippy::unwrap_used, reason = "tests")]

mod bursts;
mod lab;
mod misfires;
mod names;
mod recurrence_oracle;
mod recurrence_vectors;
mod runs;

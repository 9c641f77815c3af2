//! Collections in a folder: kills, damage, and full use of two cores.
//!
//! `STEADFAST_ROUNDS` says how often the crash test kills, `STEADFAST_SEED` where
//! it starts.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod bank;
mod damage;
mod folder;
mod kill;

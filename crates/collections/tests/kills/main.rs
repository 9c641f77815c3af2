//! Collections in a folder: kills and damage.
//!
//! The kills are also made on PostgreSQL, in `postgres_collections.rs`.
//!
//! `STEADFAST_ROUNDS` says how often the crash test kills, `STEADFAST_SEED` where
//! it starts.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod bank;
mod checker;
mod damage;
mod folder;
mod history;
mod kill;
mod place;

//! The binary on PostgreSQL.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../frozen/mod.rs"]
mod frozen;
#[path = "../running/mod.rs"]
mod running;

mod bench;
mod migrate;
mod postgres_frozen;

//! The engine on PostgreSQL: failover, faults, damage.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "tests")]

mod conformance;
mod failover;
mod faults;
mod owners;
#[path = "../pg/mod.rs"]
mod pg;
mod refusals;
mod rows;
#[path = "../../../storage/tests/seam/mod.rs"]
mod seam;
mod tls;

//! Backups and restores without a database server.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "tests")]

mod chains;
#[path = "../../../storage/tests/model/mod.rs"]
mod model;
mod power;
mod sealed;
mod unfinished;

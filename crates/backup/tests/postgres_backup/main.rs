//! Backups and moves of databases.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "../../../storage-postgres/tests/pg/mod.rs"]
mod pg;
mod shards;

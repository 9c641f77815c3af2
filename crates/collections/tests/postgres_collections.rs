//! All tests of the collections, asked of PostgreSQL.
//!
//! The same files as in the binaries `checklist`, `random`, `schema` and `kills`,
//! on another engine. Left out is what has no engine (the lock table, allocations,
//! encodings) and what damages the files of the local one.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

extern crate steadfast_collections as steadfast;

#[path = "engines/postgres.rs"]
mod engine;
#[path = "engines/postgres_place.rs"]
mod place;

#[path = "checklist/counted.rs"]
mod counted;
#[path = "checklist/deadlocks.rs"]
mod deadlocks;
#[path = "checklist/dictionary.rs"]
mod dictionary;
#[path = "checklist/errors.rs"]
mod errors;
#[path = "checklist/locks.rs"]
mod locks;
#[path = "checklist/log.rs"]
mod log;
#[path = "checklist/notices.rs"]
mod notices;
#[path = "checklist/queues.rs"]
mod queues;
#[path = "checklist/services.rs"]
mod services;
#[path = "checklist/site.rs"]
mod site;
#[path = "checklist/state.rs"]
mod state;
#[path = "checklist/transaction.rs"]
mod transaction;

#[path = "random/cancel.rs"]
mod cancel;
#[path = "random/ground.rs"]
mod ground;
#[path = "random/model.rs"]
mod model;

#[path = "schema/dictionary.rs"]
mod versions;

#[path = "kills/bank.rs"]
mod bank;
#[path = "kills/checker.rs"]
mod checker;
#[path = "kills/folder.rs"]
mod folder;
#[path = "kills/history.rs"]
mod history;
#[path = "kills/kill.rs"]
mod kill;

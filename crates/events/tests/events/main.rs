//! Event hubs, blobs and processors on the local engine.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "tests")]

mod accounts;
mod blob;
mod blocks;
mod deadlocks;
mod define;
mod epoch;
mod kill;
mod model;
mod processor;
mod publish;
mod read;
mod setup;

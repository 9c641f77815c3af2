//! Attacks on the binary, one by one.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../running/mod.rs"]
mod running;
#[path = "../strangers/mod.rs"]
mod strangers;

mod access;
mod backups;
mod bodies;
mod bytes;
mod certificates;
mod egress;
mod files;
mod guard_rights;
mod handshakes;
mod hubs;
mod links;
mod numbers;
mod origins;
mod revocation;
mod rights;

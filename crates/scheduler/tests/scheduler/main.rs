//! The Scheduler over HTTP: requests, outbound calls, kills.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../stage/mod.rs"]
mod stage;

mod actions;
mod egress;
mod kills;
mod pair;
mod refusals;
mod rest;
mod secrets;

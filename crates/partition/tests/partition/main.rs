//! The runtime: turns, suspensions, streams, two regions.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../counting/mod.rs"]
mod counting;

mod errands;
mod region_pair;
mod runtime;
mod streams;

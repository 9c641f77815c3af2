//! Balancing rules, a thousand members, the drain.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "tests")]

mod drain;
mod members;
mod properties;
mod reference;
mod world;

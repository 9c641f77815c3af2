//! Three nodes on PostgreSQL, in the process of their user.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "tests")]

#[path = "../members/mod.rs"]
mod members;

mod exactly;
mod secondary;
mod tail;
mod upgrade;
mod workers;

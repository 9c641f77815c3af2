//! Memory of a server of AMQP, alone in its process.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../amqp_setup/mod.rs"]
mod amqp_setup;

mod memory;

//! Nodes in the process of their user, and their protocols.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "tests")]

#[path = "../bank/mod.rs"]
mod bank;

mod drain;
mod durable;
mod durable_bodies;
mod durable_entities;
mod durable_grpc;
mod durable_rest;
mod durable_sdks;
mod durable_sizes;
mod durable_worker;
mod effects;
mod effects_killed;
mod example_houses;
mod examples;
mod examples_built;
mod jobs_inside;
mod life;
mod node_bank;
mod push;
mod reference;
mod task_hub;
mod test_faults;
mod virtual_time;

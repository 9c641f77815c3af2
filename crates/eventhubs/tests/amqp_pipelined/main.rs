//! The tests of AMQP again, by a client that pipelines.
//!
//! It writes its greeting, open, begin, attach and flow in one write wherever the
//! protocol lets it, as clients in .NET and Python do.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../amqp_setup/mod.rs"]
mod amqp_setup;

#[path = "../eventhubs/amqp_links.rs"]
mod links;

#[path = "../eventhubs/amqp_bounds.rs"]
mod bounds;

#[path = "../amqp_memory/memory.rs"]
mod memory;

#[path = "../eventhubs/amqp_opening.rs"]
mod opening;

#[path = "../eventhubs/amqp_producers.rs"]
mod producers;

#[path = "../eventhubs/amqp_requests.rs"]
mod requests;

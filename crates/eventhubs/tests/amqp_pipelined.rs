//! The tests of AMQP again, by a client that pipelines.
//!
//! It writes its greeting, open, begin, attach and flow in one write wherever the
//! protocol lets it, as clients in .NET and Python do.
#![expect(
    clippy::duplicate_mod,
    reason = "the files are test programs of their own, each with the same set-up"
)]

#[path = "amqp_links.rs"]
mod links;

#[path = "amqp_bounds.rs"]
mod bounds;

#[path = "amqp_memory.rs"]
mod memory;

#[path = "amqp_opening.rs"]
mod opening;

#[path = "amqp_producers.rs"]
mod producers;

#[path = "amqp_requests.rs"]
mod requests;

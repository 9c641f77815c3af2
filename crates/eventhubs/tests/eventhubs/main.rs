//! AMQP connections, blobs and events over HTTP.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../amqp_setup/mod.rs"]
mod amqp_setup;
#[path = "../blob_face/mod.rs"]
mod blob_face;

mod amqp_bounds;
mod amqp_links;
mod amqp_opening;
mod amqp_producers;
mod amqp_requests;
mod blob_accounts;
mod blob_blocks;
mod blob_leases;
mod blob_limits;
mod blob_requests;
mod blob_signatures;
mod events_http;

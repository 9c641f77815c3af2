//! Blobs by HTTP, as checkpoint stores write them.
//!
//! The part of the Blob service that clients of Event Hubs use to keep ownerships
//! and checkpoints, with leases for older ones, and block blobs. Other operations
//! are refused as not offered. Accounts are keys of this server.

mod block;
mod body;
mod condition;
mod container;
mod context;
mod error;
mod header_values;
mod lease;
mod list;
mod object;
mod operation;
mod permit;
mod property;
mod request;
mod routes;

pub use context::Context;
pub use permit::operations;
pub use routes::routes;

//! Blobs by HTTP, as checkpoint stores write them.
//!
//! The part of the Blob service that clients of Event Hubs use to keep ownerships
//! and checkpoints, and small block blobs with bodies. Whatever else is asked for
//! is said not to be there. Accounts are keys of this server.

mod ask;
mod body;
mod condition;
mod container;
mod context;
mod fault;
mod list;
mod object;
mod operation;
mod permit;
mod property;
mod routes;
mod stamp;

pub use context::Context;
pub use routes::routes;

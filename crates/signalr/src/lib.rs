//! SignalR clients: negotiation and three transports.
//!
//! A transport carries bytes between a client and its inlet and outbox; it does not know
//! hubs.
//!
//! # Tests
//!
//! - `tests/realtime_*.rs`: SignalR over real sockets: transports byte by byte, an app
//!   server written from the specification, servers that are replaced under load, clients
//!   without servers and their upstreams.

mod admit;
mod context;
mod dial;
mod error;
mod negotiate;
mod operations;
mod polling;
mod query;
mod remote_poll;
mod rest;
mod routes;
mod server;
mod sse;
mod token;
mod trust;
mod upstream;
mod websocket;

pub use context::Context;
pub use dial::{AppServerRuntime, DialOptions};
pub use operations::sends;
pub use remote_poll::{REQUESTS, answer};
pub use rest::SENDS;
pub use routes::{CLIENTS, SERVERS, client_paths, routes};
pub use token::server_token;
pub use upstream::{UpstreamRule, Upstreams};

//! SignalR clients: negotiation and three transports.
//!
//! A transport carries bytes between a client and its inlet and outbox; it does not know
//! hubs.

mod admit;
mod context;
mod dial;
mod events;
mod far;
mod negotiate;
mod operations;
mod polling;
mod query;
mod refusal;
mod rest;
mod routes;
mod server;
mod token;
mod trust;
mod upstream;
mod websocket;

pub use context::Context;
pub use dial::{DialOptions, Dialed};
pub use far::{REQUESTS, answer};
pub use operations::sends;
pub use rest::SENDS;
pub use routes::{CLIENTS, Routes, SERVERS, client_paths, routes};
pub use token::{CLIENT_KEY, TokenWish, server_token, token};
pub use upstream::{UpstreamRule, Upstreams};

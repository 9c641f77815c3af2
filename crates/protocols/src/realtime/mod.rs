//! SignalR clients: negotiation and three transports.
//!
//! A transport carries bytes between a client and its inlet and outbox; it knows
//! nothing of hubs.

mod admit;
mod context;
mod dial;
mod events;
mod far;
mod negotiate;
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
pub use routes::{Routes, routes};
pub use token::{TokenWish, server_token, token};
pub use upstream::{UpstreamRule, Upstreams};

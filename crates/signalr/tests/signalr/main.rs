//! SignalR clients and app servers over real sockets.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../hub_stage/mod.rs"]
mod hub_stage;

mod drain;
mod rest;
mod rights;
mod sdk;
mod serverless;
mod servers;
mod stalls;
mod transports;

//! Hubs and their clients, without a transport.
#![allow(clippy::unwrap_used, reason = "tests")]

mod bounds;
mod calls;
mod desk;
mod nodes;
mod resume;

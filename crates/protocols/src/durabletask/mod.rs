//! Durable Task: gRPC for the SDKs, and a REST API.
//!
//! Unmodified workers and clients speak `TaskHubSidecarService`. `convert` translates
//! their messages for the engine; the only state here is the open work streams.

mod clients;
mod context;
mod convert;
mod entities;
mod fit;
mod history;
pub mod remote;
pub mod rest;
mod routes;
mod status;
mod stream;
mod workers;

pub use context::{Context, TaskServiceCounts};
pub use routes::{METHODS, no_service, routes};

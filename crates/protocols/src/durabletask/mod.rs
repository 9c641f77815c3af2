//! Durable Task: gRPC for the SDKs, and a REST face.
//!
//! `TaskHubSidecarService` is spoken by unmodified workers and clients. What they
//! send becomes what the engine knows (`convert`), and nothing is kept here but
//! open streams of work.

mod clients;
mod context;
mod convert;
mod entities;
mod fit;
mod history;
mod refused;
pub mod remote;
pub mod rest;
mod routes;
mod stream;
mod workers;

pub use context::{Context, Counts};
pub use routes::{METHODS, no_service, routes};

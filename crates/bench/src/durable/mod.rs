//! `steadfast bench durable`: entities, orchestrations.

mod child;
mod entities;
mod functions;
mod idle;
mod orchestrations;
mod peer;
mod remote;
mod run;
mod session;
mod settings;

pub use child::{serve, serve_grpc};
pub use run::run;
pub use settings::Settings;

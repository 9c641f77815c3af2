//! `steadfast bench realtime`: clients and their moves.
//!
//! The service and its app servers are processes of their own, so that their memory and
//! CPU time are measured separately from those of the load. Where node is installed
//! with socket.io and ws, both get the same load.

mod app;
mod client;
mod crowd;
mod hub;
mod limits;
mod migrate;
mod peer;
mod run;
mod server;
mod settings;
mod traffic;

pub use app::serve as serve_app;
pub use run::run;
pub use server::serve;
pub use settings::Settings;

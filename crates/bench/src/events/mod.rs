//! `steadfast bench events`: in, out, idle, restart.
//!
//! The server is a process of its own, so that its memory and CPU time are measured
//! separately from those of the load.

mod child;
mod idle;
mod limits;
mod link;
mod many;
mod peer;
mod rate;
mod run;
mod server;
mod settings;
mod through;

pub use child::serve;
pub use run::run;
pub use settings::Settings;

//! `steadfast bench jobs`: dispatch, lateness, restart.

mod burst;
mod child;
mod lateness;
mod peer;
mod receiver;
mod registry;
mod restart;
mod run;
mod session;
mod settings;

pub use child::serve;
pub use run::run;
pub use settings::Settings;

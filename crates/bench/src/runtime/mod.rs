//! `steadfast bench runtime`: commands, timers and messages.

mod caller;
mod child;
mod commands;
mod limits;
mod load;
mod meter;
mod outbox;
mod run;
mod session;
mod settings;
mod timers;

pub use child::serve;
pub use run::run;
pub use settings::Settings;

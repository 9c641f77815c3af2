//! `steadfast bench postgres`: commits on a quorum.

pub(crate) mod bare;
mod clients;
mod events;
mod node;
mod run;
mod settings;
mod takeover;

pub use run::run;
pub use settings::Settings;

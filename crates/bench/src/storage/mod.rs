//! `steadfast bench storage`: the commit path and the disk.

mod append;
mod child;
mod commits;
mod events;
pub(crate) mod load;
mod peer;
mod reads;
mod recovery;
mod reopen;
mod run;
pub(crate) mod session;
mod settings;
mod waiters;
mod write_counters;

pub use child::fill;
pub use run::run;
pub use settings::Settings;

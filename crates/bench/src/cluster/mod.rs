//! `steadfast bench cluster`: three nodes on one database.

mod commits;
mod fanout;
mod hop;
mod limits;
mod load;
mod node;
mod regions;
mod run;
mod settings;
mod volatile;

pub use run::run;
pub use settings::Settings;

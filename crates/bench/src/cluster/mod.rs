//! `steadfast bench cluster`: three nodes on one database.

mod commits;
mod fanout;
mod hop;
mod limits;
mod load;
mod node;
mod run;
mod settings;

pub use run::run;
pub use settings::Settings;

//! `steadfast bench collections`: transactions and reads.

mod child;
mod clients;
mod commits;
mod hot;
mod memory;
mod node;
mod reads;
mod run;
mod scans;
mod settings;

pub use child::{RowStorage, hold};
pub use run::run;
pub use settings::Settings;

//! Key locks: modes, words, owners, and the table of rows.

mod deadlock;
pub mod latch;
pub mod mode;
pub mod name;
pub mod owner;
pub mod resident;
pub mod table;
pub mod word;

pub use latch::{Latch, Parking};
pub use mode::Mode;
pub use table::{Attempt, Table, Wait, WaitOutcome, Waiting};

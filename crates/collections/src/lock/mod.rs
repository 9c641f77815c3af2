//! Key locks: modes, words, owners, and the table of rows.

mod deadlock;
pub mod latch;
pub mod mode;
pub mod name;
pub mod owner;
pub mod resident;
pub mod table;
pub mod word;

pub use latch::{Latch, ParkingLatch};
pub use mode::LockStrength;
pub use table::{LockAttempt, LockTable, LockWait, TransactionWait, WaitOutcome};

//! Test harness: processes, proxy, disk, PostgreSQL.

pub mod clients;
mod disk;
pub mod postgres;
mod process;
mod proxy;

pub use disk::FakeDisk;
pub use process::Process;
pub use proxy::{Direction, FaultProxy};

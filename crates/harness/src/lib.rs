//! Test harness: child processes, fault proxy, fake disk.

mod disk;
mod process;
mod proxy;

pub use disk::FakeDisk;
pub use process::Process;
pub use proxy::{Direction, FaultProxy};

//! Test harness: processes, proxy, disk, PostgreSQL.
//!
//! # Tests
//!
//! `crates/harness/tests` tests the fake disk, child processes and the fault proxy
//! themselves.

pub mod clients;
mod disk;
mod folder;
mod ports;
pub mod postgres;
mod process;
mod proxy;

pub use disk::FakeDisk;
pub use folder::copy_folder;
pub use ports::reserve_port;
pub use process::{Process, own_test};
pub use proxy::{Direction, FaultProxy};

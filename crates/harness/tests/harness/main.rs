//! Tests of the test harness.
#![allow(clippy::unwrap_used, reason = "tests")]

mod disk;
mod ports;
mod process;
mod proxy;

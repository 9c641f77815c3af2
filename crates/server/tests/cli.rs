//! The command line as its users see it.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod commands;
mod running;

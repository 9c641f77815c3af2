//! The command line as its users see it: help, examples, former names, output, errors.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod commands;
mod running;

//! Random work against models, checkers and a scheduler.
//!
//! A failing case prints its seed or its shrunken steps.

#![expect(clippy::unwrap_used, reason = "tests")]

mod allocations;
mod cancel;
mod model;
mod schedule;
mod site;

//! `cargo xtask conformance`: items, tests, results.

mod area;
mod list;
mod results;
mod verdict;

pub(crate) use area::{Options, run};

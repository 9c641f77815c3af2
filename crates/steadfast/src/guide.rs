//! The examples of the guides compile.

/// The guide to collections.
#[doc = include_str!("../../../docs/guides/state.md")]
mod state {}

/// The guide to transactions.
#[doc = include_str!("../../../docs/guides/transactions.md")]
mod transactions {}

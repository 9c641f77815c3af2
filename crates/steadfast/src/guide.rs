//! The examples of the guide to collections compile.
#![doc = include_str!("../../../docs/guides/state.md")]

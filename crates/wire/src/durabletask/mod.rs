//! Messages of the Durable Task protocol.
//!
//! The service `TaskHubSidecarService` has no package, so paths are
//! `/TaskHubSidecarService/<method>`. Messages are generated from the published interface
//! and our additions to it, in `crates/wire/proto/durabletask`. `Option<String>` is a
//! `StringValue`: absent and empty differ.

#[allow(clippy::large_enum_variant, reason = "it is generated")]
mod messages;
pub mod well_known;

pub use messages::*;

/// The metadata key for the longest message that a worker accepts.
pub const MESSAGE_BYTES: &str = "maxmessagebytes";

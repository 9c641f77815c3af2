//! SignalR: hub messages in JSON and MessagePack.
//!
//! Arguments, items and results stay raw: only whoever knows their types decodes
//! them. Nothing is allocated for what a message claims to hold.

mod error;
pub mod frame;
pub mod handshake;
mod json;
pub mod message;
mod msgpack;
pub mod pack;
mod protocol;
pub mod read;
pub mod service;
pub mod write;

pub use error::{Malformed, Result};
pub use protocol::Protocol;

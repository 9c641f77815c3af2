//! SignalR: hub messages in JSON and MessagePack.
//!
//! Arguments, items and results stay raw: the layer that knows their types decodes
//! them. Claimed sizes cause no allocation.

mod error;
pub mod frame;
pub mod handshake;
mod json;
pub mod message;
mod msgpack;
pub mod pack;
mod protocol;
pub mod service;
pub mod write;

pub use error::{Result, SignalRDecodeError};
pub use protocol::Protocol;

//! AMQP 1.0, as clients of Event Hubs speak it.
//!
//! One task per connection. There is no allocation per event, decoding is lazy, and memory
//! is bounded whatever a client claims or leaves incomplete.

mod attach;
mod condition;
mod connection;
mod context;
mod deliver;
mod frame_buffer;
mod handshake;
mod link;
mod permit;
mod receive;
mod requests;
mod serve;
mod session;
mod websocket;
mod work;

pub use context::Context;
pub(crate) use permit::verify;
pub use serve::serve;
pub use websocket::{WEBSOCKETS, routes};

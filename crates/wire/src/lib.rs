//! Codecs of the wire protocols, pure and bounded.
//!
//! Nothing here does I/O or knows a service: bytes in, values out. All parsers of
//! untrusted bytes are in this crate, so that they can be fuzzed.

pub mod amqp;
pub mod blob;
pub mod cluster;
pub mod durabletask;
pub mod jwt;
pub mod sas;
pub mod signalr;
pub mod signature;

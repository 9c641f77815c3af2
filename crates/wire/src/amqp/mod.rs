//! AMQP 1.0: types, frames, performatives, messages.

pub mod address;
pub mod code;
pub mod compose;
pub mod condition;
pub mod connection;
pub mod delivery;
pub mod error;
pub mod event;
pub mod frame;
pub mod link;
pub mod management;
pub mod message;
pub mod performative;
pub mod request;
pub mod sasl;
pub mod scan;
pub mod selector;
pub mod session;
pub mod value;
pub mod write;

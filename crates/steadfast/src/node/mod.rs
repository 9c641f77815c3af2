//! A node: everything that runs in one process.

mod address;
mod amqp;
mod blob;
mod builder;
mod care;
mod cluster;
mod collections;
mod durable;
mod error;
mod exposure;
mod hubs;
mod inner;
mod inside;
mod keys;
mod lending;
mod neighbour;
mod open;
mod operate;
mod own;
mod performers;
mod processors;
mod readings;
mod realtime;
mod region;
mod running;
mod secret;
mod shelf;
mod slot;
mod stateful;
mod web;

pub use address::Address;
pub use builder::Builder;
pub use error::{Error, Result};
pub use running::Node;
pub use slot::Slot;
pub use stateful::StatefulService;

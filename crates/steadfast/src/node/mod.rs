//! A node: everything that runs in one process.

mod address;
mod builder;
mod care;
mod collections;
mod error;
mod exposure;
mod inner;
mod keys;
mod open;
mod operate;
mod performers;
mod readings;
mod replicas;
mod running;
mod stateful;
mod web;

pub use address::Address;
pub use builder::Builder;
pub use error::{Error, Result};
pub use running::Node;
pub use stateful::{Slot, StatefulService};

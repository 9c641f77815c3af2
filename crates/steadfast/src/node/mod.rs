//! A node: everything that runs in one process.

mod builder;
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
mod web;

pub use builder::Builder;
pub use error::{Error, Result};
pub use replicas::{Slot, StatefulService};
pub use running::{Address, Node};

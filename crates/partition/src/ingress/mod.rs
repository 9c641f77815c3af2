//! The way of a command into its partition.
//!
//! An address is hashed to a partition, and the router finds the mailbox of its owner.

pub(crate) mod address;
pub(crate) mod command;
pub(crate) mod control;
pub(crate) mod mailbox;
pub(crate) mod message;
pub(crate) mod owner_handler;
pub(crate) mod router;
pub(crate) mod space;
pub(crate) mod transport;

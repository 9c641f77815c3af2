//! Commands of capabilities, one module for each feature.
//!
//! Without its feature a command does not exist. Former names are beside the commands that
//! took their place; help does not show them.

#[cfg(feature = "bench")]
pub(crate) mod bench;
#[cfg(feature = "cluster")]
pub(crate) mod cluster;
#[cfg(feature = "durabletask")]
pub(crate) mod durabletask;
#[cfg(feature = "eventhubs")]
pub(crate) mod eventhubs;
#[cfg(feature = "scheduler")]
pub(crate) mod scheduler;
#[cfg(feature = "signalr")]
pub(crate) mod signalr;

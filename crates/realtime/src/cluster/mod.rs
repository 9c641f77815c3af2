//! One hub on all nodes of a cluster.

pub(crate) mod batch;
pub(crate) mod borrowed;
pub(crate) mod broadcast;
pub(crate) mod census;
pub(crate) mod convert;
pub(crate) mod messages;
pub(crate) mod peers;
pub(crate) mod pending_results;
pub(crate) mod remote_results;
pub(crate) mod server;
pub(crate) mod tickets;

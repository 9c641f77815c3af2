//! Reads of durable rows, here and at other nodes.

pub(crate) mod durable_reads;
pub(crate) mod read_handler;
pub(crate) mod read_request;
pub(crate) mod remote_reader;

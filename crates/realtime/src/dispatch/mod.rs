//! Hubs in this process, and what they send.

pub(crate) mod call_queue;
pub(crate) mod clients;
pub(crate) mod context;
pub(crate) mod dispatcher;
pub mod gateway;
pub(crate) mod hub;
pub(crate) mod upload;

//! Codecs: round trips, golden bytes, mutations.
#![allow(clippy::unwrap_used, reason = "tests")]

mod amqp_messages;
mod amqp_mutations;
mod amqp_performatives;
mod amqp_values;
mod blob_mutations;
mod durabletask_messages;
mod mutated;
mod signalr_messages;
mod signalr_mutations;
mod signalr_service;

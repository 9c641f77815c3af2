//! Sessions and routing of all protocols.
//!
//! Protocol types end here: the services below know nothing of HTTP or AMQP. No state in
//! this crate outlives a connection.

pub mod access;
pub mod amqp;
pub mod blob;
pub mod cluster;
pub mod connection_string;
pub mod durabletask;
pub mod egress;
mod grpc;
pub mod http;
pub mod listen;
pub mod network;
pub mod outbound;
pub mod publish;
pub mod realtime;
pub mod rest;
pub mod scheduler;
pub mod sealing;
pub mod telemetry;

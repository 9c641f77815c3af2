//! Sessions and routing of every protocol.
//!
//! Wire words end here: below are services that know nothing of HTTP or AMQP.
//! Nothing here outlives a connection.

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

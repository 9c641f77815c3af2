//! A node: everything that runs in one process.
//!
//! Each capability of the crate's features is one module here. Without its feature a form of
//! the module in `src/absent` takes its place, so that no other module asks for features.
#![cfg_attr(
    not(all(
        feature = "cluster",
        feature = "durabletask",
        feature = "eventhubs",
        feature = "postgres",
        feature = "scheduler",
        feature = "signalr"
    )),
    allow(dead_code, reason = "what only absent capabilities use")
)]

mod admin;
mod backup_restore;
mod backup_root;
mod builder;
mod built_in_services;
mod client_port;
mod cluster;
mod cluster_handlers;
#[cfg_attr(not(feature = "cluster"), path = "../absent/cluster_port.rs")]
mod cluster_port;
mod collections;
mod connection_drain;
#[cfg_attr(not(feature = "durabletask"), path = "../absent/durabletask.rs")]
mod durabletask;
mod error;
#[cfg_attr(not(feature = "eventhubs"), path = "../absent/eventhubs.rs")]
mod eventhubs;
mod hubs;
mod idempotency;
mod inner;
#[cfg_attr(not(feature = "scheduler"), path = "../absent/job_calls.rs")]
mod job_calls;
#[cfg(all(feature = "cluster", feature = "scheduler"))]
mod job_home;
#[cfg(feature = "scheduler")]
mod job_targets;
mod keys;
mod listen_address;
mod listen_policy;
mod message_check;
mod metrics;
mod open;
mod owner_rpc;
mod performers;
#[cfg_attr(not(feature = "postgres"), path = "../absent/postgres.rs")]
mod postgres;
mod processors;
#[cfg_attr(
    not(all(feature = "cluster", feature = "scheduler")),
    path = "../absent/region.rs"
)]
mod region;
#[cfg_attr(
    not(all(feature = "cluster", feature = "scheduler")),
    path = "../absent/region_server.rs"
)]
mod region_server;
mod rest_collections;
mod running;
#[cfg_attr(not(feature = "scheduler"), path = "../absent/scheduler.rs")]
mod scheduler;
mod secret;
mod service_partition;
#[cfg_attr(not(feature = "signalr"), path = "../absent/signalr.rs")]
mod signalr;
mod start;
mod stateful_service;
mod threads;
mod time;
mod volatile_services;
mod watchdog;
mod web;

pub use builder::Builder;
pub use error::{Error, Result};
pub use listen_address::ListenAddress;
pub(crate) use open::KeptMemory;
pub use running::Node;
pub use service_partition::ServicePartition;
pub use stateful_service::StatefulService;
pub use time::{
    AdvanceOptions, Error as TimeError, ErrorKind as TimeErrorKind, OpenWork, TimeReport,
    TimerEvent,
};

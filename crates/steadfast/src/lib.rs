//! Durable state for Rust applications.
//!
//! A [`Node`] keeps state in a folder: a transaction is durable when it returns, and
//! committed state survives any crash.
//!
//! ```
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let temporary = tempfile::tempdir()?;
//! # let folder = temporary.path().join("data");
//! let node = steadfast::Node::builder().data(&folder).start().await?;
//! let houses = node.singleton("houses").await?;
//! let warmth = houses.dictionary::<String, i64>("warmth").await?;
//! let set = houses.transact(async |mut tx| {
//!     warmth.set(&mut tx, "house 7", 21).await?;
//!     tx.commit(()).await
//! });
//! set.await?;
//! # Ok(())
//! # }
//! ```
//!
//! - [`Node::builder`] sets where state is kept ([`Builder::data`],
//!   [`Builder::memory`], [`Builder::postgres`]), what runs in it
//!   ([`Builder::service`], [`Builder::processor`]) and whether ports are opened ([`Builder::serve`]).
//! - [`Node::singleton`] opens a service of [`collections`], [`Node::partitioned`] one with
//!   several partitions; [`ServicePartition::transact`] runs transactions over them.
//! - [`durable`] has orchestrations and entities.
//! - [`Node::drain`] shuts a node down in order and reports the outcome.
//! - [`Builder::hub`] hosts hubs for SignalR clients, [`AppServer`] links hubs of other
//!   processes to a node.
//! - [`config`] reads settings in layers: defaults, a file, the environment, flags.
//! - [`testing`] has nodes in memory with virtual time and faults, for tests.
//!
//! Below the node, every layer can be used alone: [`storage`] is a fenced log with
//! tables beside it, [`partition`] the runtime of services.
//!
//! # The life of a node
//!
//! `node/start.rs` starts a node: it checks the settings, then binds the ports, then
//! opens the engine, then acquires all partitions, then serves the ports. `node/running.rs`
//! drains it: not ready, hooks, partitions handed over, connections ended;
//! `node/connection_drain.rs` waits for the remaining connections, and counts them.
//! `crates/server/src/server/serve.rs` adds signals and systemd.
//!
//! # Features
//!
//! Each capability is a cargo feature (`docs/reference/features.md`) and one module in `node`;
//! `absent` has the forms of these modules for builds without the feature.
//!
//! # Tests
//!
//! - `tests/node/*.rs`: nodes in the process of their user; drains with work in progress,
//!   and `kill -9` during them.
//! - `tests/node/example*.rs`: the examples as programs; the one with houses is killed
//!   while it works.
//! - `tests/cluster_members`: three nodes on PostgreSQL, together with those of
//!   `crates/server/tests`.
//! - `tests/cluster_members/secondary.rs`: a node reads consistent states of partitions
//!   that another node owns, under load.
//! - `tests/cluster_members/upgrade.rs`: nodes are replaced one by one by those of the next
//!   version; versions further apart are refused.
//! - `tests/cluster_members/tail.rs`: readers at one node follow partitions whose owners
//!   join, leave and are killed: each acknowledged event once, in order.
//! - `tests/event_hub_*.rs` and `tests/signalr_clients.rs`: SDKs of event hubs and SignalR,
//!   scenario by scenario, at one node, or at one of three that owns nothing; processors of
//!   theirs that join, leave and are killed.
//! - `tests/node/virtual_time.rs` and `tests/node/test_faults.rs`: nodes of [`testing`];
//!   `crates/server/tests/server/virtual_time.rs`: the same over REST.
//! - `tests/node/durable_worker.rs`: worker and client in Rust over gRPC.
#![warn(missing_docs)]

#[cfg(feature = "signalr")]
mod app_server;
pub mod config;
pub mod durable;
#[cfg(doctest)]
mod guide;
pub mod inspect;
mod node;
pub mod storage;
pub mod testing;

#[cfg(feature = "signalr")]
pub use app_server::{AppServer, AppServerBuilder};
pub use bytes::Bytes;
pub use node::{Builder, Error, ListenAddress, Node, Result, ServicePartition, StatefulService};
pub use steadfast_admin as admin;
#[cfg(feature = "client")]
pub use steadfast_client as client;
pub use steadfast_collections as collections;
/// Types that can be stored: each name is the trait and its derive.
pub use steadfast_collections::schema::{Key, Record, Unknown, UnknownVariant};
pub use steadfast_core::{clock, error, id, iso};
pub use steadfast_events as events;
pub use steadfast_jobs as jobs;
pub use steadfast_macros::hub;
pub use steadfast_net as net;
pub use steadfast_ownership as ownership;
pub use steadfast_partition as partition;
pub use steadfast_realtime as realtime;

#[doc(hidden)]
pub use steadfast_collections::__private;

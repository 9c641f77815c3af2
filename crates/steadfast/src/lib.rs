//! Durable state for Rust applications.
//!
//! A [`Node`] keeps state in a folder: a transaction is durable when it returns, and
//! committed state survives any crash.
//!
//! ```
//! use steadfast::collections::{Dictionary, Scheme, SlotKey};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let temporary = tempfile::tempdir()?;
//! # let folder = temporary.path().join("data");
//! let node = steadfast::Node::builder().data(&folder).start().await?;
//! let houses = node.service("houses", Scheme::Singleton).await?;
//! let houses = houses.slot(SlotKey::Only).await?;
//! let warmth: Dictionary<String, i64> = houses.state().get_or_add("warmth").await?;
//! houses
//!     .run(|tx| {
//!         let warmth = warmth.clone();
//!         Box::pin(async move { warmth.set(tx, "house 7".into(), 21).await })
//!     })
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! - [`Node::builder`] sets where state is kept ([`Builder::data`],
//!   [`Builder::memory`], [`Builder::postgres`]), what runs in it
//!   ([`Builder::service`], [`Builder::processor`]) and whether ports are opened ([`Builder::serve`]).
//! - [`Node::service`] opens partitioned services of [`collections`].
//! - [`durable`] has orchestrations and entities.
//! - [`Node::drain`] shuts a node down in order and reports the outcome.
//! - [`Builder::hub`] hosts hubs for SignalR clients, [`AppServer`] links hubs of other
//!   processes to a node.
//! - [`config`] reads settings in layers: defaults, a file, the environment, flags.
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
//! - `tests/node_*.rs`: nodes in the process of their user; drains with work in progress,
//!   and `kill -9` during them.
//! - `tests/example*.rs`: the examples as programs; the one with houses is killed while it
//!   works.
//! - `tests/cluster_*.rs`: three nodes on PostgreSQL, together with those of
//!   `crates/server/tests`.
//! - `tests/cluster_secondary.rs`: a node reads consistent states of partitions that
//!   another node owns, under load.
//! - `tests/cluster_upgrade.rs`: nodes are replaced one by one by those of the next
//!   version; versions further apart are refused.
//! - `tests/cluster_tail.rs`: readers at one node follow partitions whose owners join,
//!   leave and are killed: each acknowledged event once, in order.
//! - `tests/event_hub_*.rs` and `tests/signalr_clients.rs`: SDKs of event hubs and SignalR,
//!   scenario by scenario, at one node, or at one of three that owns nothing; processors of
//!   theirs that join, leave and are killed.
//! - `tests/durable_worker.rs`: worker and client in Rust over gRPC.
#![warn(missing_docs)]

#[cfg(feature = "signalr")]
mod app_server;
pub mod config;
pub mod durable;
pub mod inspect;
mod node;

#[cfg(feature = "signalr")]
pub use app_server::{AppServer, AppServerBuilder};
pub use bytes::Bytes;
pub use node::{Builder, Error, ListenAddress, Node, Result, Slot, StatefulService};
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
pub use steadfast_storage as storage;

#[doc(hidden)]
pub use steadfast_collections::__private;

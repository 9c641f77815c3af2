//! Durable state for Rust applications.
//!
//! A [`Node`] keeps state in a folder: a transaction is durable when it returns,
//! and what was committed is there after any crash.
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
#![warn(missing_docs)]

mod app_server;
pub mod config;
pub mod durable;
pub mod inspect;
mod node;

pub use app_server::{AppServer, AppServerBuilder};
pub use bytes::Bytes;
pub use node::{Address, Builder, Error, Node, Result, Slot, StatefulService};
pub use steadfast_collections as collections;
/// Types that can be stored: each name is the trait and its derive.
pub use steadfast_collections::schema::{Key, Record, Unknown, UnknownVariant};
pub use steadfast_core::{clock, error, id};
pub use steadfast_events as events;
pub use steadfast_jobs as jobs;
pub use steadfast_macros::hub;
pub use steadfast_ownership as ownership;
pub use steadfast_partition as partition;
pub use steadfast_protocols as protocols;
pub use steadfast_realtime as realtime;
pub use steadfast_storage as storage;

#[doc(hidden)]
pub use steadfast_collections::__private;

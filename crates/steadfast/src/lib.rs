//! Durable state for Rust applications.
//!
//! A folder, a store on it, a partition to write to: a commit is durable when it
//! returns, and what was committed is there after any crash.
//!
//! ```
//! use std::sync::Arc;
//!
//! use steadfast::id::{Owner, Partition, Table};
//! use steadfast::storage::local::{self, Local};
//! use steadfast::storage::{Options, Store, View, Writes};
//!
//! const HOUSES: Table = Table(1);
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let temporary = tempfile::tempdir()?;
//! # let folder = temporary.path().join("data");
//! let engine = Local::open(&folder, &local::Options::default())?;
//! let owner = Owner { node: 1, incarnation: 1 };
//! let store = Store::start(Arc::new(engine), Options::new(owner));
//! let ledger = store.acquire(Partition::new(0, 0)).await?;
//!
//! let mut writes = Writes::new();
//! writes.put(HOUSES, b"house 7", b"21.5");
//! ledger.commit(writes).await?;
//!
//! let warmth = ledger.get(HOUSES, b"house 7", View::Durable).await?;
//! assert_eq!(warmth.as_deref(), Some(b"21.5".as_slice()));
//! # Ok(())
//! # }
//! ```
#![warn(missing_docs)]

pub mod config;
pub mod inspect;
mod node;

pub use node::{Address, Builder, Error, Node, Result, Slot, StatefulService};
pub use steadfast_collections as collections;
pub use steadfast_core::{clock, error, id};
pub use steadfast_macros::{Key, Record};
pub use steadfast_ownership as ownership;
pub use steadfast_partition as partition;
pub use steadfast_protocols as protocols;
pub use steadfast_storage as storage;

#[doc(hidden)]
pub use steadfast_collections::__private;

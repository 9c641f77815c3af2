//! Steadfast's storage: one seam, several engines.
//!
//! Below the seam ([`Engine`]) stand the engines: [`memory`], [`local`] and [`postgres`]. Above it
//! stand, once for all engines, the [`Store`] with its group commit and flusher,
//! and one [`Ledger`] per owned partition with its overlay, snapshots and event
//! streams. Only this crate names a database.

pub mod backup;
mod behind;
mod body;
mod budget;
mod cache;
mod commit;
mod copied;
pub mod copies;
pub mod engine;
mod error;
mod flush;
pub mod hostile;
mod lanes;
mod latch;
mod lease;
mod leases;
mod ledger;
pub mod local;
pub mod memory;
mod meta;
pub mod mirror;
mod node;
mod overlay;
pub mod postgres;
pub mod private;
mod queue;
mod records;
mod retention;
pub mod shards;
mod shared;
mod snapshot;
mod sorted;
mod state;
mod store;
mod streams;

pub use body::{Body, Transaction, Writes};
pub use engine::Engine;
pub use error::{Error, Kind, Result};
pub use lease::Lease;
pub use ledger::{Ledger, View};
pub use retention::Retention;
pub use shared::{Peek, Place, Staged};
pub use snapshot::Snapshot;
pub use store::{Options, Store};
pub use streams::Head;

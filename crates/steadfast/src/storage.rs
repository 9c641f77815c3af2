//! The layers of storage, which can be used without a node.
//!
//! [`Store`] and [`Ledger`] are a fenced log with tables beside it, on an engine: [`memory`],
//! [`local`] (a folder), [`postgres`] (one database) or [`shards`] (several). [`backup`]
//! copies what they hold.

pub use steadfast_backup as backup;
pub use steadfast_storage::*;
pub use steadfast_storage_local as local;
#[cfg(feature = "postgres")]
pub use steadfast_storage_postgres as postgres;
#[cfg(feature = "postgres")]
pub use steadfast_storage_postgres::shards;
pub use steadfast_storage_replicated::{mirror, replicated_memory};

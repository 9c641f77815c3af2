//! Reliable collections: dictionaries, queues and logs.
//!
//! Transactional, durable, and only ever changed through their own operations.
//! [`Replica`] is one partition's collections, [`State`] finds them by name,
//! [`Tx`] is a transaction over them.

mod collection;
mod committer;
mod concurrent_queue;
mod dictionary;
mod enumerate;
mod error;
mod home;
mod items;
pub mod lock;
mod log;
mod notice;
mod open;
mod options;
mod queue;
mod registry;
mod replica;
mod rows;
mod scan;
pub mod schema;
mod scheme;
mod seal;
mod service;
mod source;
mod state;
mod stored;
mod tables;
mod transaction;
mod writeset;

pub use collection::{Description, Shape};
pub use concurrent_queue::ConcurrentQueue;
pub use dictionary::{Dictionary, View};
pub use enumerate::{Cursor, DictionaryNotice, DictionaryNotices, Query};
pub use error::{Error, Kind, Result, Retry};
pub use log::{Bounds, Event, Log};
pub use notice::{StateNotice, TransactionNotice};
pub use open::Handle;
pub use options::{LockMode, Opt, Timeout};
pub use queue::Queue;
pub use replica::{Options, Replica, Role, StateNotices, TransactionNotices, Work};
pub use scheme::{Scheme, SlotKey, partition_of};
pub use seal::Sealed;
pub use service::{Lifecycle, Service, Slot};
pub use state::State;
pub use stored::Stored;
pub use transaction::Tx;

#[doc(hidden)]
pub use schema::__private;

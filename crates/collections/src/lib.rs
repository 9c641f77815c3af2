//! Reliable collections: dictionaries, queues and logs.
//!
//! Transactional, durable, and only ever changed through their own operations.
//! [`Replica`] is one partition's collections, [`State`] finds them by name,
//! [`Tx`] is a transaction over them.
//!
//! ```
//! use std::sync::Arc;
//! use steadfast_collections::{Dictionary, Options, Queue, Replica};
//! use steadfast_core::id::{Owner, Partition};
//! use steadfast_storage::{Store, memory::Memory};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let owner = Owner { node: 1, incarnation: 1 };
//! let options = steadfast_storage::Options::new(owner);
//! let store = Store::start(Arc::new(Memory::new()), options);
//! let ledger = store.acquire(Partition(0)).await?;
//! let replica = Replica::primary(ledger, Options::default()).await?;
//!
//! let stock: Dictionary<String, u64> = replica.state().get_or_add("stock").await?;
//! let orders: Queue<String> = replica.state().get_or_add("orders").await?;
//! let mut tx = replica.begin();
//! stock.set(&mut tx, "apples".to_owned(), 12).await?;
//! orders.enqueue(&mut tx, "apples".to_owned()).await?;
//! tx.commit().await?; // both, or neither
//!
//! let sold = replica.run(|tx| {
//!     let (stock, orders) = (stock.clone(), orders.clone());
//!     Box::pin(async move {
//!         let Some(order) = orders.try_dequeue(tx).await? else {
//!             return Ok(false);
//!         };
//!         stock.update(tx, &order, |count| count - 1).await
//!     })
//! });
//! assert!(sold.await?);
//! # Ok(())
//! # }
//! ```

mod collection;
mod committer;
mod concurrent_queue;
mod courier;
mod dictionary;
mod enumerate;
mod error;
mod home;
mod inspect;
mod items;
mod keys;
pub mod lock;
mod log;
mod notice;
mod open;
mod options;
mod queue;
mod registry;
mod replica;
mod report;
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
pub use courier::{Courier, Declined, Outcome};
pub use dictionary::{Dictionary, View};
pub use enumerate::{Cursor, DictionaryNotice, DictionaryNotices, Query};
pub use error::{Error, Kind, Result, Retry};
pub use inspect::{Entry, Inspector, Summary};
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

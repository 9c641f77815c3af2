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
//! use steadfast_storage::{Store, memory::MemoryEngine};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let owner = Owner { node: 1, incarnation: 1 };
//! let options = steadfast_storage::Options::new(owner);
//! let store = Store::start(Arc::new(MemoryEngine::new()), options);
//! let ledger = store.acquire(Partition(0)).await?;
//! let replica = Replica::primary(ledger, Options::default()).await?;
//!
//! let stock: Dictionary<String, u64> = replica.state().get_or_add("stock").await?;
//! let orders: Queue<String> = replica.state().get_or_add("orders").await?;
//! let mut tx = replica.begin();
//! stock.set(&mut tx, "apples", 12).await?;
//! orders.enqueue(&mut tx, "apples").await?;
//! tx.commit().await?; // both, or neither
//!
//! let sold = replica.transact(async |mut tx| {
//!     let Some(order) = orders.try_dequeue(&mut tx).await? else {
//!         return Ok(tx.roll_back(false));
//!     };
//!     let is_known = stock.update(&mut tx, &order, |count| count - 1).await?;
//!     tx.commit(is_known).await
//! });
//! assert!(sold.await?);
//! # Ok(())
//! # }
//! ```
//!
//! # One transaction over collections
//!
//! 1. `replica.rs`, `Replica::begin`: a number and an owner of locks (`lock/owner.rs`),
//!    nothing else.
//! 2. `dictionary.rs`, an operation on a key. The transaction **enters** the collection (a
//!    shared lock on all of it, once), encodes the key into a buffer of its own, and locks
//!    the row (`lock/table.rs`). The lock word is in the **resident row**, beside the
//!    committed value, decoded once; so the common read is one look-up. If another
//!    transaction has the lock, the operation waits in its queue until its time-out. A row
//!    that is not resident is read from the ledger and stays (`rows.rs`,
//!    `lock/resident.rs`).
//! 3. A write goes into the write set (`writeset.rs`), which only its transaction sees.
//!    Enumerating and counting read the snapshot that the first of them has pinned, with
//!    the write set laid over it (`scan.rs`, `source.rs`). An enumeration of keys, or one
//!    with a filter, reads the keys first and then the values of those that match,
//!    neighbours together: no other value leaves the tables.
//! 4. `prepared.rs`, `Tx::prepare`: the write set becomes redo (`Writes`). From here only
//!    the outcome of the append ends the transaction. `Tx::commit` prepares, stages
//!    (`committer.rs`) and waits; the runtime above may take the prepared transaction and
//!    stage it in an entry of its own. What the transaction has sent (`Tx::send`,
//!    `outgoing_message.rs`) or staged goes with it through the commit path
//!    (`commit_path.rs`): the runtime writes messages into its outbox in the same commit.
//! 5. `prepared.rs`, `Prepared::finish`, when the append is durable: resident rows get
//!    their new values, the registry and the queues their changes, subscribers their
//!    notices; then the locks go to the waiters.
//!
//! Names of collections are rows of a system table (`registry.rs`, `tables.rs`); creating
//! and removing are part of a transaction. A service (`service.rs`) is a name, a scheme
//! (`scheme.rs`) and a guarantee, durable or volatile; its partitions are scopes of names.
//!
//! By REST (`crates/admin/src/state.rs`) a request is one such transaction, over
//! dictionaries with text keys and JSON values; `crates/steadfast/src/node/collections.rs`
//! runs it.
//!
//! # One value, from struct to bytes and back
//!
//! 1. `crates/macros` derives `Record` (`crates/macros/src/record.rs`, `body.rs` beside it)
//!    and `Key` (`crates/macros/src/key.rs`). Generated code names one hidden module,
//!    `__private`.
//! 2. `schema/envelope.rs`, `encode_value`: a format byte, the schema version, then CBOR.
//!    Fields newer than the write version (`schema/version.rs`) are left out.
//! 3. `schema/cbor.rs`, `CborWriter`: fields in the order of their numbers; unknown ones
//!    (`schema/unknown.rs`) are merged in between, byte for byte.
//! 4. `schema/envelope.rs`, `decode_value`, and `schema/cbor.rs`, `CborReader`: known
//!    fields are decoded, unknown ones are kept in the record itself, whole variants in the
//!    catch-all.
//! 5. `schema/ordered.rs`: keys as bytes that sort like the key. `schema/contract.rs`
//!    checks stored keys: `stored_keys.rs` has it check the first page before a dictionary
//!    is opened and all the others after that, and disables a dictionary whose keys differ.
//! 6. `schema/render.rs`: the same bytes as JSON, for tools that know no Rust type.
//!
//! Absent: a value that can be changed through a shared reference (only the derives and
//! this module implement `Record`), a field that is dropped without an error, a golden file
//! (`crates/collections/tests/golden`) that changes. `docs/decisions/0006-record-format.md`
//! gives the reasons.
//!
//! # Tests
//!
//! - `crates/collections/tests/checklist`: the checklist of the collections, item by item,
//!   on a paused clock.
//! - `crates/collections/tests/kills`: kills and damaged folders under collections; a bank
//!   whose total never changes; histories that a checker must be able to order.
//! - `crates/collections/tests/random`: every collection against a naive one; cancelled
//!   operations; allocations; the lock table under a scheduler that tries many orders.
//! - `tests/postgres_collections.rs`: all of these again on PostgreSQL: the checklist, the
//!   models, cancellations, kills, the bank, the histories.

mod attempt;
mod collection;
mod commit_path;
mod committer;
mod concurrent_queue;
mod dictionary;
mod enumerate;
mod error;
mod handle;
mod inspect;
mod items;
pub mod lock;
mod lock_display;
mod log;
mod notice;
mod options;
mod outgoing_message;
mod prepared;
mod queue;
mod registry;
mod replica;
mod replica_inner;
mod rows;
mod scan;
pub mod schema;
mod scheme;
mod service;
mod source;
mod state;
mod stored_keys;
mod stored_value;
mod tables;
mod transaction;
mod writeset;

pub use attempt::{Attempt, Conclusion};
pub use collection::{Description, Shape};
pub use commit_path::{CommitPath, CommitRejected, Outcome, StagedCommands};
pub use concurrent_queue::ConcurrentQueue;
pub use dictionary::{Dictionary, DictionaryView};
pub use enumerate::{Cursor, DictionaryNotice, DictionaryNotices, DictionaryQuery};
pub use error::{Error, ErrorKind, Result, RetryAdvice};
pub use handle::Handle;
pub use inspect::{CollectionSummary, Entry, Inspector};
pub use log::{Log, LogBounds, LogEvent};
pub use notice::{StateNotice, TransactionNotice};
pub use options::{LockMode, OperationOptions, Timeout};
pub use outgoing_message::OutgoingMessage;
pub use prepared::Prepared;
pub use queue::Queue;
pub use replica::{Options, Replica, ReplicaRole, StateNotices, TransactionNotices};
pub use scheme::{PartitionKey, Scheme, partition_of};
pub use service::{Lifecycle, ServiceDefinition, ServicePartitionState};
pub use state::State;
pub use stored_value::StoredValue;
pub use transaction::Tx;

#[doc(hidden)]
pub use schema::__private;

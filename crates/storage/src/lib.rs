//! Steadfast's storage: the seam and what stands above it.
//!
//! Below the seam ([`Engine`]) are the engines. Above it are, once for all engines, the
//! [`Store`] with its group commit and flusher, and one [`Ledger`] per owned partition with
//! its overlay, snapshots and event streams.
//!
//! # The layers
//!
//! - Above the seam, once for all engines: `store.rs`, `ledger.rs`, `partition_state.rs`,
//!   `state.rs`, `commit.rs`, `flush.rs`, `overlay.rs`, `snapshot.rs`, `streams.rs`,
//!   `retention.rs`, `cache.rs`, `budget.rs`, `background.rs` and `lock_shim.rs`. The folder
//!   `crates/storage/src/export` is what backups and copies read of a store.
//! - The seam: `engine.rs`, one trait object with fourteen methods.
//! - Engines of this crate: [`memory`], and [`hostile`], a wrapper for tests.
//! - Engines in crates of their own, none of which uses another: `storage-local` (a folder),
//!   `storage-postgres` (one database or several), `storage-replicated` (two regions, and the
//!   memory of several nodes). `backup` copies the state of any of them.
//!
//! What engines and backups share is public, each in its module: [`body`] and [`meta`]
//! (encodings that engines keep), [`cluster_records`] and [`owner_leases`] (for engines that
//! hold them in memory), [`replica_content`] (replicas that other nodes fill), [`private`]
//! (files for their owner only), [`background`] (threads of low priority), [`export`].
//!
//! An engine has two parts: a commit log, whose acknowledgement is the only guarantee, and
//! tables, which are filled from the log. The owner of a partition is its only writer, so
//! its memory is valid for as long as its epoch is.
//!
//! # One commit, from call to disk and back
//!
//! 1. `ledger.rs`: `Ledger::commit` passes the transaction to `partition_state.rs`, the state
//!    that all tasks of the owner share. The limits of the transaction (`body.rs`) and the log
//!    budget (`budget.rs`) are checked before anything changes. Then the transaction is
//!    **staged**, synchronously, under the lock of the partition: it gets its LSN and the
//!    owner's time, its rows enter the overlay (`overlay.rs`), its event batches get sequence
//!    numbers and offsets (`streams.rs`), and it joins the pending transactions of the
//!    partition. A waiter stays behind.
//! 2. `queue.rs`: the partition enters the queue of the committer, once, and wakes it.
//! 3. `commit.rs`: one task sends group after group. `collect` lets each queued partition
//!    close an **entry** (`PartitionState::close_entry`: number, epoch, body, batches) until
//!    the group is large enough. There is no timer: a lone transaction is sent at once, and
//!    what arrives during an append shares the next one. The locks of `partition_state.rs` and
//!    `queue.rs` come from `lock_shim.rs`, so that `commit/tests.rs` can replace them with
//!    shuttle's and run random schedules.
//! 4. `engine.rs`, `Engine::append(group)`: the seam.
//! 5. `storage-local/src/engine.rs` passes the group to the log thread and waits for its
//!    answer.
//! 6. `storage-local/src/commit_log.rs`, on the log thread: `check_fences` compares epoch and
//!    number of each entry with the control state (`storage-local/src/control.rs`). Refused
//!    entries drop out; the other entries of the group continue. Large event batches are
//!    written to the files of their streams and synced first, two streams at a time
//!    (`storage-local/src/large_publications.rs`, `storage-local/src/events.rs`). The rest
//!    becomes one record.
//! 7. `storage-local/src/record.rs` encodes the record: header, items, checksum.
//! 8. `storage-local/src/segment.rs` writes the record into the current **segment**, a file
//!    that was filled with zeros before its first use, and syncs it with one `fdatasync`. A
//!    record that does not fit goes into the next segment, which is taken from the spare files
//!    (`storage-local/src/spare_files.rs`).
//!
//! Back:
//!
//! 9. `storage-local/src/commit_log.rs`, `apply`: the control state adds the new entries. It
//!    changes only when a group is durable.
//! 10. `commit.rs`, `settle`, per entry. `Committed`: the commit continues. `Fenced`: the
//!     ledger fails for good. `Unknown`: `resolve` acquires the partition with the old epoch
//!     and compares last number and hash to find out whether the entry is there; if it is not,
//!     `resolve` sends the same bytes in the new epoch. If the engine wrote nothing (a full
//!     disk), the staged transactions are rolled back and the ledger continues.
//! 11. `partition_state.rs`, `committed`: the durable LSN advances, durable readers see the
//!     rows and events, and the waiters complete in LSN order.
//!
//! Nothing was flushed so far. Reads find the rows in the overlay.
//!
//! # One flush
//!
//! 1. `flush.rs` sleeps until the unflushed log exceeds its target, then takes the partitions
//!    with the oldest entries. It seals their active **generation**, waits until that is
//!    durable, and skips it while a snapshot is pinned before its end. `Generation::fold`
//!    returns rows in key order, cleared tables and trims.
//! 2. `engine.rs`, `Engine::flush`: the seam. `storage-local/src/engine.rs` passes the flush
//!    to the flush thread.
//! 3. `storage-local/src/flush_thread.rs`, on the flush thread, takes all waiting flushes
//!    together. Stale epochs are refused. Then, in this order:
//!    1. `storage-local/src/events.rs`: event batches that are only in the log are copied to
//!       their place in the files of their streams; the files and new names are synced;
//!    2. `storage-local/src/tables.rs`: one sorted ingestion brings rows, fence rows, stream
//!       ends and cluster records into the tree, durable and all at once;
//!    3. the control state drops what is flushed, and the log thread writes the new **mark**
//!       as a record and syncs it;
//!    4. segments before the mark become spare files, and trimmed event files are removed;
//!    5. the tree is compacted, after the flush was answered.
//! 4. `flush.rs`, `retire`: rows in the cache (`cache.rs`) are updated, the generation is
//!    dropped, and its bytes return to the budget. A thread of low priority (`background.rs`)
//!    folds and frees generations, so that flushing does not slow down committing.
//!
//! A crash between any two steps leaves a log that still holds everything, and redo is
//! absolute.
//!
//! # Tests
//!
//! The questions of the seam (`crates/storage/tests/seam`) and the model
//! (`crates/storage/tests/model`) are shared with the tests of the engines and of `backup`.
//!
//! - `tests/storage/conformance.rs`: the guarantees of the seam, the same questions to every
//!   engine; here to memory, and to the hostile wrapper with delays only. Items are named
//!   `seam_NN_..`.
//! - `tests/storage/store.rs`: what is above the seam: order, snapshots, throttling, retention;
//!   random work against a naive model; and the **hostile engine**, which answers `Unknown` for
//!   groups that were or were not applied, loses answers, refuses groups, and lets a rival
//!   acquire partitions.
//! - `tests/storage/store_lease.rs`: a node whose lease has expired shows and acquires nothing.
//! - `commit/tests.rs`: the group commit under shuttle's random schedules: no writer is
//!   acknowledged early, twice or never, whatever the engine answers.
//!   `cargo xtask mutants storage` plants faults into it.

pub mod background;
pub mod body;
mod budget;
mod cache;
pub mod cluster_records;
mod commit;
mod committers;
pub mod engine;
mod error;
pub mod export;
mod flush;
pub mod hostile;
mod ledger;
mod lock_shim;
pub mod memory;
pub mod meta;
mod node_context;
mod node_lease;
mod overlay;
pub mod owner_leases;
mod partition_state;
pub mod private;
mod queue;
pub mod replica_content;
mod retention;
mod snapshot;
mod sorted_key;
mod state;
mod store;
mod streams;

pub use body::{EntryBody, Transaction, Writes};
pub use engine::Engine;
pub use error::{Error, ErrorKind, Result, SpecificError, SpecificKind};
pub use ledger::{Ledger, Visibility};
pub use node_lease::NodeLease;
pub use partition_state::{AppendPosition, MemoryLookup, StagedTransaction};
pub use retention::RetentionBounds;
pub use snapshot::Snapshot;
pub use store::{Options, Store};
pub use streams::{StreamHead, decode_heads, encode_heads};

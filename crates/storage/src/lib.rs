//! Steadfast's storage: one seam, several engines.
//!
//! Below the seam ([`Engine`]) are the engines, such as [`memory`], [`local`] and
//! [`postgres`]. Above it are, once for all engines, the [`Store`] with its group commit
//! and flusher, and one [`Ledger`] per owned partition with its overlay, snapshots and
//! event streams. Apart from `bench`, only this crate names a database.
//!
//! # The layers of this crate
//!
//! - Above the seam, once for all engines: `store.rs`, `ledger.rs`, `partition_state.rs`,
//!   `state.rs`, `commit.rs`, `flush.rs`, `overlay.rs`, `snapshot.rs`, `streams.rs`,
//!   `retention.rs`, `cache.rs`, `budget.rs`, `background.rs`, `lock_shim.rs`, and
//!   `backup/`, which serves every engine.
//! - The seam: `engine.rs`, one trait object with fourteen methods.
//! - Engines: `memory`, `local`, `postgres`, `shards` (several `postgres`), `mirror` (a
//!   wrapper for two regions), `replicated_memory` (the memory of several nodes) and
//!   `hostile` (a wrapper for tests).
//!
//! An engine has two parts: a commit log, whose acknowledgement is the only guarantee, and
//! tables, which are filled from the log. The owner of a partition is its only writer, so
//! its memory is valid for as long as its epoch is.
//!
//! # One commit, from call to disk and back
//!
//! 1. `ledger.rs`: `Ledger::commit` passes the transaction to `partition_state.rs`, the
//!    state that all tasks of the owner share. The limits of the transaction (`body.rs`)
//!    and the log budget (`budget.rs`) are checked before anything changes. Then the
//!    transaction is **staged**, synchronously, under the lock of the partition: it gets
//!    its LSN and the owner's time, its rows enter the overlay (`overlay.rs`), its event
//!    batches get sequence numbers and offsets (`streams.rs`), and it joins the pending
//!    transactions of the partition. A waiter stays behind.
//! 2. `queue.rs`: the partition enters the queue of the committer, once, and wakes it.
//! 3. `commit.rs`: one task sends group after group. `collect` lets each queued partition
//!    close an **entry** (`PartitionState::close_entry`: number, epoch, body, batches)
//!    until the group is large enough. There is no timer: a lone transaction is sent at
//!    once, and what arrives during an append shares the next one. The locks of
//!    `partition_state.rs` and `queue.rs` come from `lock_shim.rs`, so that
//!    `commit/tests.rs` can replace them with shuttle's and run random schedules.
//! 4. `engine.rs`, `Engine::append(group)`: the seam.
//! 5. `local/engine.rs` passes the group to the log thread and waits for its answer.
//! 6. `local/commit_log.rs`, on the log thread: `check_fences` compares epoch and number of
//!    each entry with the control state (`local/control.rs`). Refused entries drop out; the
//!    other entries of the group continue. Large event batches are written to the files of
//!    their streams and synced first, two streams at a time (`local/large_publications.rs`,
//!    `local/events.rs`). The rest becomes one record.
//! 7. `local/record.rs` encodes the record: header, items, checksum.
//! 8. `local/segment.rs` writes the record into the current **segment**, a file that was
//!    filled with zeros before its first use, and syncs it with one `fdatasync`. A record
//!    that does not fit goes into the next segment, which is taken from the spare files
//!    (`local/spare_files.rs`).
//!
//! Back:
//!
//! 9. `local/commit_log.rs`, `apply`: the control state adds the new entries. It changes
//!    only when a group is durable.
//! 10. `commit.rs`, `settle`, per entry. `Committed`: the commit continues. `Fenced`: the
//!     ledger fails for good. `Unknown`: `resolve` acquires the partition with the old
//!     epoch and compares last number and hash to find out whether the entry is there; if
//!     it is not, `resolve` sends the same bytes in the new epoch. If the engine wrote
//!     nothing (a full disk), the staged transactions are rolled back and the ledger
//!     continues.
//! 11. `partition_state.rs`, `committed`: the durable LSN advances, durable readers see the
//!     rows and events, and the waiters complete in LSN order.
//!
//! Nothing was flushed so far. Reads find the rows in the overlay.
//!
//! # One flush
//!
//! 1. `flush.rs` sleeps until the unflushed log exceeds its target, then takes the
//!    partitions with the oldest entries. It seals their active **generation**, waits until
//!    that is durable, and skips it while a snapshot is pinned before its end.
//!    `Generation::fold` returns rows in key order, cleared tables and trims.
//! 2. `engine.rs`, `Engine::flush`: the seam. `local/engine.rs` passes the flush to the
//!    flush thread.
//! 3. `local/flush_thread.rs`, on the flush thread, takes all waiting flushes together.
//!    Stale epochs are refused. Then, in this order:
//!    1. `local/events.rs`: event batches that are only in the log are copied to their
//!       place in the files of their streams; the files and new names are synced;
//!    2. `local/tables.rs`: one sorted ingestion brings rows, fence rows, stream ends and
//!       cluster records into the tree, durable and all at once;
//!    3. the control state drops what is flushed, and the log thread writes the new
//!       **mark** as a record and syncs it;
//!    4. segments before the mark become spare files, and trimmed event files are removed;
//!    5. the tree is compacted, after the flush was answered.
//! 4. `flush.rs`, `retire`: rows in the cache (`cache.rs`) are updated, the generation is
//!    dropped, and its bytes return to the budget. A thread of low priority
//!    (`background.rs`) folds and frees generations, so that flushing does not slow down
//!    committing.
//!
//! A crash between any two steps leaves a log that still holds everything, and redo is
//! absolute.
//!
//! # One recovery
//!
//! 1. `local/data_folder.rs` takes the lock, checks the format and reads the salt.
//! 2. `local/tables.rs` opens the tree, in the state of the last finished ingestion.
//! 3. `local/recovery.rs`:
//!    1. reads the control rows: fences, stream ends, cluster records, and the group that
//!       they cover;
//!    2. reads the first record of each log file, which names the segment that the file
//!       holds; files without a valid one are spare;
//!    3. takes the mark from the last valid record of the newest segment; the mark names
//!       the first segment that is needed; a gap between needed segments is refused;
//!    4. reads the records from there in order; numbers, checksums and the chain must hold.
//!       The first bad record is the torn tail, unless a valid one with a higher number
//!       exists: then the folder is refused with file and offset;
//!    5. syncs the last segment, because a killed process may have left its last record
//!       unsynced;
//!    6. drops the entries that a fence row marks as flushed; the rest must follow without
//!       a gap, and the log must reach as far as the tables do.
//! 4. `local/events.rs`: at the first access to a stream, its files that begin behind its
//!    end are removed. Their group was never committed.
//! 5. `store.rs`, `Store::acquire`, per partition: the engine raises the epoch and returns
//!    a **tenure** (epoch, last entry, flushed entry, what the last flush left). `load`
//!    replays the entries after the flushed one into overlay and streams. Then the ledger
//!    serves.
//!
//! # The data folder
//!
//! ```text
//! FORMAT            version and salt; the first file that is written
//! LOCK              held while the folder is open
//! log/000000.log    log files, filled with zeros once and used again
//! tables/           the tree
//! events/P-S/       one folder per stream (partition, stream), one file per segment
//! restoring/        the result of an unfinished restore; removed when the folder is opened
//! ```
//!
//! # One commit in two regions
//!
//! The mirror is in `mirror/`, the pair of regions in `crates/partition/src/region`.
//! `docs/decisions/0013-regions.md` gives the reasons.
//!
//! 1. A group goes from `commit.rs` to `mirror/engine.rs` instead of the local engine. The
//!    mirror checks its leader lease (`mirror/leader_lease.rs`): a region that does not own
//!    the space writes nothing.
//! 2. The group is appended to the local engine. Then
//!    `crates/cluster-rpc/src/client.rs` sends its redo to the other region as one
//!    numbered step (`mirror/copy.rs`).
//! 3. There, `crates/partition/src/region/pair.rs` passes it to `mirror/follower.rs`, which
//!    refuses an old epoch, an earlier session or a missing step. Otherwise it commits the
//!    step through a store of its own, as one transaction in each partition with the number
//!    of the step, and answers when that is durable. After a restart that number says where
//!    to continue. A whole copy is made in a second generation of the partitions
//!    (`mirror/generation.rs`) and replaces the previous one by one record.
//! 4. Back: acknowledged. If there is no answer for 5 s, the mirror requests to work alone,
//!    and waits until `crates/partition/src/region/pair.rs` has had the witness record it.
//!
//! Absent: a clock that is compared with another one, a way to rewind a log, job data at
//! the witness, a redirect, a transaction over two homes.
//!
//! # One volatile commit in a cluster
//!
//! The engine is in `replicated_memory/`; `crates/partition/src/volatile` opens its
//! partitions. `docs/decisions/0015-volatile-copies.md` gives the reasons.
//!
//! 1. `crates/steadfast/src/node/volatile_services.rs` opens a partition of a service: it
//!    requests the ledger of its store partition from
//!    `crates/partition/src/volatile/space.rs`, and compares the incarnation there with the
//!    one in the store partition of the same index in the main space
//!    (`crates/collections/src/service.rs`). If they differ, the owner is informed first.
//! 2. From `commit.rs` on, where each partition has a committer of its own, an entry goes
//!    to `replicated_memory/engine.rs`. It is written to the memory of this node and, in
//!    the same moment, put into the queue of each holder
//!    (`replicated_memory/leader_state.rs`).
//! 3. `replicated_memory/stream.rs`, one task per holder, sends the queue in order, one
//!    `ReplicationEnvelope` (`replicated_memory/message.rs`) at a time, through
//!    `crates/partition/src/volatile/replica_peers.rs` and `Cluster::request`. Envelopes of
//!    several partitions to one node share a call
//!    (`crates/partition/src/volatile/batching.rs`). At the holder, `memory/replicas.rs`
//!    refuses earlier epochs and gaps, and applies the entry to the rows of the replica
//!    (`replica_content.rs`).
//! 4. Back: an entry that a majority has is acknowledged if the lease holds. If the epoch
//!    is over, the outcome is unknown, and `commit.rs` resolves it by `acquire`, as always.
//!
//! A takeover is `replicated_memory/claim.rs`: raise the epoch on the record
//! (`replicated_memory/replica_set.rs`), ask the holders, decide
//! (`replicated_memory/quorum.rs`, pure), fetch if another replica is further, bring the
//! living holders to the same content, record them, begin. `replicated_memory/reconcile.rs`
//! decides which nodes hold a replica afterwards. `crates/partition/src/volatile/space.rs`
//! follows what the main runtime serves, and releases a volatile partition before the main
//! one is handed over (`Runtime::on_hand_over`).
//!
//! Absent: a plan or a lease of its own, a write to the database per commit, a log in a
//! replica, a replica that counts before it is whole.
//!
//! # The engine on PostgreSQL
//!
//! In `postgres/`; `docs/decisions/0007-postgres.md` gives the reasons.
//!
//! - `postgres/append.rs`: the commit, one fenced statement for many partitions.
//!   `postgres/record.rs` is an entry as rows.
//! - `postgres/tenure.rs`: acquire, renew, release. Every acquired partition passes
//!   `postgres/verify.rs` (log chain, digests of `postgres/digest.rs`, streams).
//!   `postgres/known_partitions.rs` keeps what was acknowledged, so that a database that
//!   has less is recognised as loss.
//! - `postgres/flush.rs` and `postgres/segments.rs`: rows and digests in one transaction
//!   under a fence of its own; trimmed events are removed by the table.
//! - `postgres/read.rs` and `postgres/cas.rs`: reads and cluster records.
//! - `postgres/servers.rs` finds the primary, `postgres/session.rs` is one connection,
//!   `postgres/pool.rs` lends sessions, `postgres/statement_error.rs` classifies failures,
//!   `postgres/safety.rs` lists the required settings, `postgres/schema.rs` migrates.
//! - `postgres/watcher.rs` (wake-ups and settings) and `postgres/scrub.rs` (all replicas
//!   once a day) run beside it.
//!
//! The engine cancels no statement, decides nothing by a clock, and verifies every new
//! primary.
//!
//! **Several databases** (`shards/`). A node always opens its databases through
//! `ShardedEngine`, also a single one.
//!
//! 1. `shards/open.rs` opens the databases of the address and compares them with the map
//!    (`shards/map.rs`), a record in shard 0: identities of the databases in order, the
//!    spread (shard = partition mod spread), and what was moved since. Every other shard
//!    holds a claim that names its owner, so that it is never opened alone or twice.
//! 2. `shards/engine.rs` sends each call to the engine of its partition. Cluster records
//!    are in shard 0, leases in every shard: each shard decides by itself whether a
//!    partition may be acquired.
//! 3. `Engine::shard` tells the store which log holds a partition. The store has one
//!    committer per shard (`committers.rs`), so that a database that fails over delays only
//!    its own commits.
//!
//! A move (`backup/relocate.rs`) requires that no node has a lease. Per partition: acquire
//! it in the source (epoch + 1, everything verified); copy its rows as they are, in one
//! transaction of the target; verify log, digests, streams and every batch there
//! (`postgres/transfer.rs`); close the source (epoch + 1, `moved`: from then on no node
//! acquires it there, whatever map it has); switch the map; remove the rows. The partition
//! stays in the source until the source is closed; from then on it is in the target, and
//! the next run completes the move.
//!
//! Absent: a transaction over two databases, a move under load, a lease per shard.
//!
//! **A backup while several nodes write** (`postgres/database_snapshot.rs`) reads through
//! one transaction that sees log, rows and events of all partitions at one moment; a write
//! behind it proves that all of it is replicated. It is an engine of its own that acquires
//! nothing and refuses every write, so the same backup job serves it.
//!
//! # One backup
//!
//! All files are in `backup/` where no other place is named. `docs/guides/backup.md` shows
//! its use.
//!
//! 1. `backup/backup_job.rs`, on a thread of its own: it locks the repository
//!    (`backup/repository.rs`), looks up the life of the store (`backup/identity.rs`), and
//!    opens the chain below an incremental backup (`backup/chain.rs`). With a key, it draws
//!    a data key (`backup/seal.rs`): all files are written and read through
//!    `backup/folder.rs`, which seals every block (`backup/block.rs`).
//! 2. `backup/cut.rs` opens a **tap** (`backup/tap.rs`) on all partitions. From now on
//!    `PartitionState::committed` puts every entry into it, without waiting: a tap that is
//!    not emptied in time closes itself, and the backup fails.
//! 3. Partition after partition: `backup/pages.rs` reads every table in pages, each a short
//!    snapshot, and `backup/row_diff.rs` compares them with the chain and writes the
//!    differences to a sorted **run** (`backup/run.rs`). The tables are known from the
//!    overlay and from a list that every flush leaves (`meta.rs`). Events follow, from the
//!    end of the chain to the point where the tap was opened. Between pages the tap is
//!    emptied into `backup/delta.rs`, which folds rows into further runs and appends events
//!    to a file.
//! 4. `backup/cut.rs` closes the tap on all partitions while it holds all of them: that is
//!    the moment of the backup. Scan and deltas together are the state at that moment,
//!    because redo is absolute.
//! 5. All runs are read back, merged with those of the chain (`backup/merge.rs`), and
//!    digested. The manifest (`backup/manifest.rs`) is written and synced, and the folder
//!    gets its name.
//!
//! A restore (`backup/restore.rs`) merges the runs of all links straight into the tables by
//! `Engine::flush`, appends events with their old numbers by `Engine::append`, leaves LSN,
//! time, heads and tables in the meta of the partition, and reads everything back. For a
//! data folder (`backup/offline.rs`) this happens in `restoring/`;
//! `local/folder_replacement.rs` then puts it in place of the folder, and its file
//! `COMPLETE` is the moment of the change. A failed restore removes what it has built;
//! after a crash, the next open does, unless the folder held no state before.
//!
//! A running server is backed up by the same job. To restore itself it drains, ends
//! connections, releases the folder, restores, and starts again in the same process: the
//! loop in `crates/server/src/server/serve.rs`.
//!
//! # Tests
//!
//! The model that several of them compare with is `crates/storage/tests/model`.
//!
//! - `tests/conformance.rs`: the guarantees of the seam, the same questions to every
//!   engine: memory, local, and the hostile wrapper with delays only. Items are named
//!   `seam_NN_..`.
//! - `tests/store.rs`: what is above the seam: order, snapshots, throttling, retention;
//!   random work against a naive model; and the **hostile engine**, which answers `Unknown`
//!   for groups that were or were not applied, loses answers, refuses groups, and lets a
//!   rival acquire partitions.
//! - `tests/store_lease.rs`: a node whose lease has expired shows and acquires nothing.
//! - `tests/recovery.rs`: the **fake disk**. Power is cut between any two operations, any
//!   subset of what was not synced survives, and the state must equal a replay of a copy of
//!   the log that is never trimmed. A seed decides everything.
//! - `tests/crash.rs`: a real child process, `kill -9` at random moments: everything
//!   acknowledged is there, nothing in part, sequence numbers dense.
//! - `tests/errors.rs`: folders that cannot be opened or written, full disks, flipped bits,
//!   failed syncs: the right code, and nothing lost.
//! - `commit/tests.rs`: the group commit under shuttle's random schedules: no writer is
//!   acknowledged early, twice or never, whatever the engine answers.
//!   `cargo xtask mutants storage` plants faults into it.
//! - `mirror/tests.rs`: two regions and a witness in one thread, on a virtual clock: links
//!   cut, answers lost, time that jumps. A takeover loses nothing acknowledged, no region
//!   acknowledges in an old epoch, one owner at the end. A seed decides everything.
//! - `replicated_memory/tests.rs`: several nodes in one process on one durable engine:
//!   takeover by a node that holds nothing, a newcomer under load, an owner that is cut
//!   off, holders that die one after the other, all that die at once.
//! - `tests/backup.rs`: chains restored at each of their points against the model, on
//!   several engines and under writers; holes, damage, Safe and Force; processes killed.
//! - `tests/backup_sealed.rs`: sealed backups: known values in none of their bytes, wrong
//!   keys, every byte altered, files of other backups; frozen backups of both formats.
//! - `tests/backup_power.rs`: power cuts during backups and restores, and at every step in
//!   which a restore takes its place.
//! - `tests/postgres_*.rs`: the engine on PostgreSQL, and several of them as one: the same
//!   conformance items (`postgres_seam`); databases that are missing, foreign or exchanged,
//!   and a move that is interrupted again and again (`postgres_shards`, `t14_..`); refused
//!   databases, faults and damage on clusters of three (`t04_..` to `t15_..`); failover
//!   under load (`t01_..` to `t03_..`), by hand and by a manager; rows and tampering;
//!   acquisitions of one process that overlap (`postgres_owners`).

mod background;
pub mod backup;
mod body;
mod budget;
mod cache;
mod cluster_records;
mod commit;
mod committers;
pub mod engine;
mod error;
mod flush;
pub mod hostile;
mod ledger;
pub mod local;
mod lock_shim;
pub mod memory;
mod meta;
pub mod mirror;
mod node_context;
mod node_lease;
mod overlay;
mod owner_leases;
mod partition_state;
pub mod postgres;
pub mod private;
mod queue;
mod replica_content;
pub mod replicated_memory;
mod retention;
pub mod shards;
mod snapshot;
mod sorted_key;
mod state;
mod store;
mod streams;

pub use body::{EntryBody, Transaction, Writes};
pub use engine::Engine;
pub use error::{Error, ErrorKind, Result};
pub use ledger::{Ledger, Visibility};
pub use node_lease::NodeLease;
pub use partition_state::{AppendPosition, MemoryLookup, StagedTransaction};
pub use retention::RetentionBounds;
pub use snapshot::Snapshot;
pub use store::{Options, Store};
pub use streams::StreamHead;

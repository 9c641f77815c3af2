//! Backup and restore of a store, whatever its engine.
//!
//! A backup is fuzzy: every partition is scanned in pages, each a short snapshot of
//! its own, while a tap collects all that is committed meanwhile. Redo is absolute,
//! so the scan with the collected changes over it is exactly the state at the
//! moment in which the tap was closed. That moment is one for all partitions.
//!
//! An incremental backup reads everything again and keeps what differs from the
//! chain below it, and only the events behind those that the chain has. So it needs
//! neither the log nor any retention.
//!
//! With a key every file is sealed, and the manifest authenticated ([`BackupKey`]). A chain
//! is sealed as a whole or not at all.
//!
//! ```text
//! 000001-full/manifest.json     written last; without it there is no backup
//! 000001-full/00000003.rows     rows of partition 3, sorted
//! 000001-full/00000003.0.delta  rows changed meanwhile, sorted, newer than those above
//! 000001-full/00000003.events   event batches up to the begin of the backup
//! 000001-full/00000003.tail     event batches appended meanwhile
//! 000001-full/state, records    stream heads; cluster records
//! 000002-incremental/..         the same, as differences
//! LOCK                          held while a backup is written
//! ```
//!
//! # One backup
//!
//! `docs/guides/backup.md` shows its use.
//!
//! 1. `backup_job.rs`, on a thread of its own: it locks the repository (`repository.rs`),
//!    looks up the life of the store (`identity.rs`), and opens the chain below an incremental
//!    backup (`chain.rs`). With a key, it draws a data key (`seal.rs`): all files are written
//!    and read through `folder.rs`, which seals every block (`block.rs`).
//! 2. `storage/src/export/cut.rs` opens a **tap** (`storage/src/export/tap.rs`) on all
//!    partitions. From now on `PartitionState::committed` puts every entry into it, without
//!    waiting: a tap that is not emptied in time closes itself, and the backup fails.
//! 3. Partition after partition: `storage/src/export/pages.rs` reads every table in pages,
//!    each a short snapshot, and `row_diff.rs` compares them with the chain and writes the
//!    differences to a sorted **run** (`run.rs`). The tables are known from the overlay and
//!    from a list that every flush leaves (`storage/src/meta.rs`). Events follow, from the end
//!    of the chain to the point where the tap was opened. Between pages the tap is emptied
//!    into `delta.rs`, which folds rows into further runs and appends events to a file.
//! 4. `storage/src/export/cut.rs` closes the tap on all partitions while it holds all of them:
//!    that is the moment of the backup. Scan and deltas together are the state at that moment,
//!    because redo is absolute.
//! 5. All runs are read back, merged with those of the chain (`merge.rs`), and digested. The
//!    manifest (`manifest.rs`) is written and synced, and the folder gets its name.
//!
//! A restore (`restore.rs`) merges the runs of all links straight into the tables by
//! `Engine::flush`, appends events with their old numbers by `Engine::append`, leaves LSN,
//! time, heads and tables in the meta of the partition, and reads everything back. For a data
//! folder (`offline.rs`) this happens in `restoring/`;
//! `storage-local/src/folder_replacement.rs` then puts it in place of the folder, and its file
//! `COMPLETE` is the moment of the change. A failed restore removes what it has built; after a
//! crash, the next open does, unless the folder held no state before.
//!
//! A running server is backed up by the same job. To restore itself it drains, ends
//! connections, releases the folder, restores, and starts again in the same process: the loop
//! in `crates/server/src/server/serve.rs`.
//!
//! # Tests
//!
//! - `tests/backup/chains.rs`: chains restored at each of their points against the model, on
//!   several engines and under writers; holes, damage, Safe and Force; processes killed.
//! - `tests/backup/sealed.rs`: sealed backups: known values in none of their bytes, wrong
//!   keys, every byte altered, files of other backups; frozen backups of both formats.
//! - `tests/backup/unfinished.rs`: restores that fail leave the state as it was.
//! - `tests/backup/power.rs`: power cuts during backups and restores, and at every step in
//!   which a restore takes its place.
//! - `tests/postgres_backup/shards.rs`: databases: backup while nodes write, several databases,
//!   moves between them.

mod backup_job;
mod backup_reader;
mod block;
mod chain;
#[cfg_attr(not(feature = "postgres"), path = "absent/database.rs")]
mod database;
mod delta;
mod digest;
mod error;
mod events;
#[cfg(feature = "postgres")]
mod exclusive_access;
mod folder;
mod identity;
mod manifest;
mod manifest_file;
mod merge;
mod migrate;
mod offline;
mod progress;
#[cfg(feature = "postgres")]
mod relocate;
mod repository;
mod restore;
mod row_diff;
mod run;
mod seal;
mod state_files;

pub use backup_job::{BackupOptions, BackupReport, take};
pub use chain::BackupChain;
#[cfg(feature = "postgres")]
pub use database::take_running;
pub use database::{DatabaseOptions, restore_database, take_database};
pub use error::ErrorKind;
#[cfg(feature = "postgres")]
pub use exclusive_access::ExclusiveAccess;
pub use manifest::{Extent, Manifest, PartitionManifest};
pub use migrate::{StorageLocation, StoreMigration, migrate};
pub use offline::{FolderRestore, RestorePolicy, restore_folder, take_folder};
pub use progress::{BackupPhase, BackupProgress};
#[cfg(feature = "postgres")]
pub use relocate::{RelocationReport, RelocationRequest, relocate};
pub use restore::{RestoreReport, restore};
pub use seal::BackupKey;

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

mod backup_job;
mod backup_reader;
mod block;
mod chain;
mod cut;
mod database;
mod delta;
mod digest;
mod events;
mod exclusive_access;
mod folder;
mod identity;
mod manifest;
mod manifest_file;
mod merge;
mod migrate;
mod offline;
pub(crate) mod pages;
mod progress;
mod relocate;
mod repository;
mod restore;
mod row_diff;
mod run;
mod seal;
mod state_files;
pub(crate) mod tap;

pub use backup_job::{BackupOptions, BackupReport, take};
pub use chain::BackupChain;
pub use database::{restore_database, take_database, take_running};
pub use exclusive_access::ExclusiveAccess;
pub use manifest::{Extent, Manifest, PartitionManifest};
pub use migrate::{StorageLocation, StoreMigration, migrate};
pub use offline::{FolderRestore, RestorePolicy, restore_folder, take_folder};
pub use progress::{BackupPhase, BackupProgress};
pub use relocate::{RelocationReport, RelocationRequest, relocate};
pub use restore::{RestoreReport, restore};
pub use seal::BackupKey;

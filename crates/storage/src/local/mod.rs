//! The local engine: one node, one folder, no other process.
//!
//! One write-ahead log for all partitions is what is acknowledged; an LSM tree
//! and files of events are filled from it and rebuilt from it after a crash.
//!
//! ```text
//! FORMAT, LOCK      version and salt; held while the folder is open
//! log/000000.log    the commit log: zero-filled once, recycled
//! tables/           rows and control state
//! events/P-S/       one folder per stream, one file per segment
//! restoring/        what a restore is building, until it takes its place
//! ```

mod commit_log;
mod control;
mod data_folder;
mod engine;
mod events;
mod flush_thread;
mod folder_replacement;
mod folders;
mod large_publications;
mod lock_holder;
mod read;
mod record;
mod recovery;
mod segment;
mod spare_files;
mod tables;

pub(crate) use data_folder::is_data_folder;
pub use engine::{LocalEngine, Options};
pub(crate) use folder_replacement::{FolderReplacement, clean};
pub(crate) use folders::create_folder;
pub use lock_holder::lock_holder;

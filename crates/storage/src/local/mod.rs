//! The local engine: one node, one folder, no other process.
//!
//! One write-ahead log for all partitions is what is acknowledged; an LSM tree
//! and files of events are filled from it and rebuilt from it after a crash.
//!
//! ```text
//! FORMAT, LOCK      who wrote the folder, and that we have it
//! log/000000.log    the commit log: zero-filled once, recycled
//! tables/           rows and control state
//! events/P-S/       one folder per stream, one file per segment
//! restoring/        what a restore is building, until it takes its place
//! ```

mod control;
mod engine;
mod events;
mod fold;
mod folder;
mod large;
mod log;
mod place;
mod read;
mod record;
mod recover;
mod replace;
mod segment;
mod spare;
mod tables;

pub use engine::{Local, Options};
pub(crate) use folder::is_data_folder;
pub(crate) use place::create_folder;
pub(crate) use replace::{Replacement, clean};

//! The local engine: one node, one folder, no other process.
//!
//! One write-ahead log for all partitions is what is acknowledged; an LSM tree
//! and files of events are filled from it and rebuilt from it after a crash.
//!
//! # One recovery
//!
//! 1. `data_folder.rs` takes the lock, checks the format and reads the salt.
//! 2. `tables.rs` opens the tree, in the state of the last finished ingestion.
//! 3. `recovery.rs`:
//!    1. reads the control rows: fences, stream ends, cluster records, and the group that they
//!       cover;
//!    2. reads the first record of each log file, which names the segment that the file holds;
//!       files without a valid one are spare;
//!    3. takes the mark from the last valid record of the newest segment; the mark names the
//!       first segment that is needed; a gap between needed segments is refused;
//!    4. reads the records from there in order; numbers, checksums and the chain must hold.
//!       The first bad record is the torn tail, unless a valid one with a higher number
//!       exists: then the folder is refused with file and offset;
//!    5. syncs the last segment, because a killed process may have left its last record
//!       unsynced;
//!    6. drops the entries that a fence row marks as flushed; the rest must follow without a
//!       gap, and the log must reach as far as the tables do.
//! 4. `events.rs`: at the first access to a stream, its files that begin behind its end are
//!    removed. Their group was never committed.
//! 5. `storage/src/store.rs`, `Store::acquire`, per partition: the engine raises the epoch and
//!    returns a **tenure** (epoch, last entry, flushed entry, what the last flush left).
//!    `load` replays the entries after the flushed one into overlay and streams. Then the
//!    ledger serves.
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
//! # Tests
//!
//! - `tests/local/conformance.rs`: the questions of the seam.
//! - `tests/local/recovery.rs`: the **fake disk**. Power is cut between any two operations, any
//!   subset of what was not synced survives, and the state must equal a replay of a copy of
//!   the log that is never trimmed. A seed decides everything.
//! - `tests/local/crash.rs`: a real child process, `kill -9` at random moments: everything
//!   acknowledged is there, nothing in part, sequence numbers dense.
//! - `tests/local/errors.rs`: folders that cannot be opened or written, full disks, flipped
//!   bits, failed syncs: the right code, and nothing lost.
//! - `tests/local/fixture.rs`: a folder that an earlier version has written.

mod commit_log;
mod control;
mod data_folder;
mod engine;
mod error;
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

pub use data_folder::is_data_folder;
pub use engine::{LocalEngine, Options};
pub use error::ErrorKind;
pub use folder_replacement::{FolderReplacement, clean};
pub use folders::create_folder;
pub use lock_holder::lock_holder;

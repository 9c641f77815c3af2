//! Every bound, in one place.
//!
//! Queues, batches, caches and retries take their bounds from here. Few are
//! settings: a bound becomes one when somebody needs it to be.

use std::time::Duration;

/// Longest key of a row.
pub const KEY_BYTES: usize = 4 * 1024;

/// Largest transaction that a service may commit.
pub const TRANSACTION_BYTES: usize = 32 * 1024 * 1024;

/// Bytes after which a group is closed.
pub const GROUP_BYTES: usize = 4 * 1024 * 1024;

/// An entry that is larger travels alone, so that its neighbours need not wait.
pub const LONE_ENTRY_BYTES: usize = 1024 * 1024;

/// Largest event batch.
pub const EVENT_BATCH_BYTES: usize = 16 * 1024 * 1024;

/// How fast a flush writes at most, in bytes per second.
pub const FLUSH_RATE_BYTES: u64 = 128 * 1024 * 1024;

/// Unflushed log bytes of a node at which flushing starts.
pub const LOG_TARGET_BYTES: u64 = 64 * 1024 * 1024;

/// Unflushed log bytes of a node at which writers are throttled.
pub const LOG_LIMIT_BYTES: u64 = 256 * 1024 * 1024;

/// Memory for cached rows.
pub const ROW_CACHE_BYTES: u64 = 256 * 1024 * 1024;

/// Memory for the tails of event streams.
pub const EVENT_TAIL_BYTES: u64 = 128 * 1024 * 1024;

/// How long a snapshot may be held before it is faulted.
pub const SNAPSHOT_AGE: Duration = Duration::from_secs(30);

/// Rows that one page of a scan holds at most.
pub const SCAN_ROWS: usize = 10_000;

/// Event bytes of one stream in one group from which they bypass the log.
pub const INLINE_EVENT_BYTES: usize = 64 * 1024;

/// What a block of a backup's file holds before the next one is begun.
pub const BACKUP_BLOCK_BYTES: usize = 256 * 1024;

/// Rows that a backup reads in one go.
pub const BACKUP_PAGE_BYTES: usize = 4 * 1024 * 1024;

/// Committed bytes that may wait for a backup before it gives up: writers never
/// wait for it.
pub const BACKUP_TAP_BYTES: usize = 64 * 1024 * 1024;

/// Changed rows that a backup keeps in memory before it writes them to a file.
pub const BACKUP_DELTA_BYTES: usize = 64 * 1024 * 1024;

/// Rows or events that a restore brings into the tables in one go.
pub const RESTORE_FLUSH_BYTES: usize = 64 * 1024 * 1024;

//! Every bound, in one place.
//!
//! Queues, batches, caches and retries take their bounds from here. Few are
//! settings: a bound becomes one when somebody needs it to be.

use std::time::Duration;

/// Longest key of a row.
pub const KEY_BYTES: usize = 4 * 1024;

/// How deeply records, lists and maps in a value may be nested.
pub const RECORD_DEPTH: usize = 64;

/// Largest stored value, with its envelope.
pub const VALUE_BYTES: usize = TRANSACTION_BYTES;

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

/// Largest transaction over collections.
pub const PUBLIC_TRANSACTION_BYTES: usize = 1024 * 1024;

/// How long an operation on a collection waits for its locks unless told otherwise.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(4);

/// How long a transaction over collections may stay open before it is faulted.
pub const TRANSACTION_AGE: Duration = Duration::from_secs(30);

/// Memory for the resident rows of one partition's collections.
pub const RESIDENT_BYTES: usize = 64 * 1024 * 1024;

/// Longest name of a collection or service.
pub const NAME_BYTES: usize = 1024;

/// Notifications that a subscriber may be behind before it must rebuild.
pub const NOTICES: usize = 4096;

/// How often `run` tries a transaction, and its first and longest pause.
pub const RUN_ATTEMPTS: u32 = 12;
pub const RUN_FIRST_PAUSE: Duration = Duration::from_millis(2);
pub const RUN_LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Slots that a service may have.
pub const SERVICE_SLOTS: u32 = 65_536;

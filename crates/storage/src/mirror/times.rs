//! How long promises last.

use std::time::Duration;

/// How long a voter promises a seat.
pub const TTL: Duration = Duration::from_secs(10);

/// How long an owner uses such a promise, from when it asked for it.
pub const USED: Duration = Duration::from_secs(8);

/// How often an owner asks for it.
pub const RENEWAL: Duration = Duration::from_secs(3);

/// How long the other region may be silent before its owner goes on alone.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// How long the other region may take to begin a whole copy.
pub const BEGINNING: Duration = Duration::from_secs(30);

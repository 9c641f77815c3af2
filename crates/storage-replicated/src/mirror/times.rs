//! Leases and time-outs of a pair.

use std::time::Duration;

/// How long a lease lasts that a voter grants.
pub const TTL: Duration = Duration::from_secs(10);

/// How long an owner uses such a lease, from the time of its request.
pub const USED: Duration = Duration::from_secs(8);

/// How often an owner renews its lease.
pub const RENEWAL: Duration = Duration::from_secs(3);

/// How long the other region may be silent before the owner works alone.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Time-out of the other region to begin a full copy.
pub const BEGINNING: Duration = Duration::from_secs(30);

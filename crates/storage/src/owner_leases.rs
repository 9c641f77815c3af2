//! Leases of owners, as one engine knows them.
//!
//! A lease is a hint that keeps others from taking a partition too early. It
//! never protects data: the epoch does.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use steadfast_core::clock::Clock;
use steadfast_core::id::Owner;

/// The leases that one engine has given.
pub struct OwnerLeases {
    clock: Arc<dyn Clock>,
    until: HashMap<Owner, Duration>,
}

impl OwnerLeases {
    /// No leases, by this clock.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            until: HashMap::new(),
        }
    }

    /// Keeps an owner alive for `ttl` from now.
    pub fn renew(&mut self, owner: Owner, ttl: Duration) {
        let now = self.clock.monotonic();
        self.until.retain(|_, until| *until > now);
        self.until.insert(owner, now + ttl);
    }

    /// Whether `holder` keeps `candidate` from taking a partition.
    pub fn blocks(&self, holder: Option<Owner>, candidate: Owner) -> bool {
        let Some(holder) = holder.filter(|holder| *holder != candidate) else {
            return false;
        };
        let until = self.until.get(&holder);
        until.is_some_and(|until| *until > self.clock.monotonic())
    }
}

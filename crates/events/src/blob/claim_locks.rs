//! Locks of accounts that claim more of their limit.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use tokio::sync::{Mutex, MutexGuard};

/// Locks of accounts: of one node, one writer at a time claims room for an account.
#[derive(Default)]
pub(super) struct ClaimLocks([Mutex<()>; 16]);

impl ClaimLocks {
    pub(super) async fn lock(&self, account: &str) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        account.hash(&mut hasher);
        let place = hasher.finish() as usize % self.0.len();
        self.0[place].lock().await
    }
}

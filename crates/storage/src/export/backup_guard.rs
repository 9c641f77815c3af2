//! One backup of a store at a time.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use steadfast_core::clock::Timestamp;

use crate::engine::Engine;
use crate::node_context::NodeContext;
use crate::store::Store;

/// Marks a store as being backed up until it is dropped.
pub struct BackupGuard(Arc<NodeContext>);

impl BackupGuard {
    /// Marks the store; `None` if another backup of it is under way.
    pub fn begin(store: &Store) -> Option<Self> {
        let is_busy = store.node.backing_up.swap(true, Ordering::AcqRel);
        (!is_busy).then(|| Self(Arc::clone(&store.node)))
    }

    /// The engine of the store.
    pub fn engine(&self) -> &dyn Engine {
        &*self.0.engine
    }

    /// The time of the store.
    pub fn now(&self) -> Timestamp {
        self.0.clock.now()
    }
}

impl Drop for BackupGuard {
    fn drop(&mut self) {
        self.0.backing_up.store(false, Ordering::Release);
    }
}

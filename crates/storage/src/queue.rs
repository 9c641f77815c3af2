//! A queue that notifies its consumer.
//!
//! Bounded by its use: a partition is queued at most once.

use std::collections::VecDeque;

use tokio::sync::Notify;

use crate::lock_shim::{LockFamily, ParkingLocks, SharedLock};

/// Items that wait for one consumer.
pub(crate) struct NotifyQueue<T: Send + Sync + 'static, L: LockFamily = ParkingLocks> {
    /// `None` once the queue is closed.
    items: L::LockOf<Option<VecDeque<T>>>,
    bell: Notify,
}

impl<T: Send + Sync + 'static, L: LockFamily> NotifyQueue<T, L> {
    pub(crate) fn new() -> Self {
        Self {
            items: SharedLock::new(Some(VecDeque::new())),
            bell: Notify::new(),
        }
    }

    /// Adds an item and notifies the consumer.
    pub(crate) fn push(&self, item: T) {
        if let Some(items) = &mut *self.items.write() {
            items.push_back(item);
        }
        self.bell.notify_one();
    }

    /// Puts an item back at the front.
    pub(crate) fn put_back(&self, item: T) {
        if let Some(items) = &mut *self.items.write() {
            items.push_front(item);
        }
        self.bell.notify_one();
    }

    /// Takes the oldest item, if there is one.
    pub(crate) fn pop(&self) -> Option<T> {
        self.items.write().as_mut()?.pop_front()
    }

    /// Drops queued and later items: they may hold references to the queue.
    pub(crate) fn close(&self) {
        drop(self.items.write().take());
    }

    /// Waits until something was added since the last wait.
    pub(crate) async fn wait(&self) {
        self.bell.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_back_is_taken_first() {
        let queue: NotifyQueue<u32> = NotifyQueue::new();
        queue.push(1);
        queue.push(2);
        let first = queue.pop().unwrap();
        queue.push(3);
        queue.put_back(first);
        let order = std::iter::from_fn(|| queue.pop());
        assert_eq!(order.collect::<Vec<_>>(), [1, 2, 3]);
    }
}

//! A queue with a bell.
//!
//! Bounded by its use: a partition stands in it once at most.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Items that wait for one consumer.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    /// `None` once nobody will take anything any more.
    items: Mutex<Option<VecDeque<T>>>,
    bell: Notify,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Self {
        Self {
            items: Mutex::new(Some(VecDeque::new())),
            bell: Notify::new(),
        }
    }

    /// Adds an item and rings.
    pub(crate) fn push(&self, item: T) {
        if let Some(items) = &mut *self.items.lock() {
            items.push_back(item);
        }
        self.bell.notify_one();
    }

    /// Takes the oldest item, if there is one.
    pub(crate) fn pop(&self) -> Option<T> {
        self.items.lock().as_mut()?.pop_front()
    }

    /// Drops what waits and whatever is still added: its items may hold the queue.
    pub(crate) fn close(&self) {
        drop(self.items.lock().take());
    }

    /// Waits until something was added since the last wait.
    pub(crate) async fn wait(&self) {
        self.bell.notified().await;
    }
}

//! A queue with a bell.
//!
//! Bounded by its use: a partition stands in it once at most.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Items that wait for one consumer.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    items: Mutex<VecDeque<T>>,
    bell: Notify,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Self {
        Self {
            items: Mutex::new(VecDeque::new()),
            bell: Notify::new(),
        }
    }

    /// Adds an item and rings.
    pub(crate) fn push(&self, item: T) {
        self.items.lock().push_back(item);
        self.bell.notify_one();
    }

    /// Takes the oldest item, if there is one.
    pub(crate) fn pop(&self) -> Option<T> {
        self.items.lock().pop_front()
    }

    /// Waits until something was added since the last wait.
    pub(crate) async fn wait(&self) {
        self.bell.notified().await;
    }
}

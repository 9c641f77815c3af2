//! The stream of work for one worker.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::desk::Desk;
use super::seat::Seat;
use crate::aide::Operator;
use crate::work::{Item, Terms};

/// The stream of work for one worker. When it is dropped, its items are assigned again.
pub struct Worker {
    desk: Arc<Desk>,
    id: u64,
    items: mpsc::UnboundedReceiver<Item>,
    /// Items of other nodes.
    foreign: Option<mpsc::UnboundedReceiver<Item>>,
}

/// Sends a worker the items of other nodes.
#[derive(Clone)]
pub(crate) struct Inbox(mpsc::UnboundedSender<Item>);

impl Inbox {
    /// Sends an item; if the worker has gone, the lease returns the item to the queue.
    pub(crate) fn put(&self, item: Item) {
        let _ = self.0.send(item);
    }

    /// Completes when the worker has gone.
    pub(crate) async fn closed(&self) {
        self.0.closed().await;
    }
}

impl Worker {
    /// A worker, and the sender for items of other nodes.
    pub(crate) fn shared(desk: Arc<Desk>, terms: Terms) -> (Self, Inbox) {
        let mut worker = Self::new(desk, terms);
        let (sender, foreign) = mpsc::unbounded_channel();
        worker.foreign = Some(foreign);
        (worker, Inbox(sender))
    }

    pub(crate) fn new(desk: Arc<Desk>, terms: Terms) -> Self {
        let (sender, items) = mpsc::unbounded_channel();
        let id = desk.seat(Seat::new(terms, sender));
        Self {
            desk,
            id,
            items,
            foreign: None,
        }
    }

    /// Declares that the worker is in this process; it is not sent the histories of instances
    /// that it has in memory.
    pub(crate) fn remember(&self, memory: Arc<dyn Operator>) {
        self.desk.remember(self.id, memory);
    }

    /// The next item; `None` when the node shuts down. This is cancel-safe: no item is lost
    /// if the future is dropped.
    pub async fn next(&mut self) -> Option<Item> {
        let Some(foreign) = &mut self.foreign else {
            return self.items.recv().await;
        };
        tokio::select! {
            item = self.items.recv() => item,
            Some(item) = foreign.recv() => Some(item),
        }
    }

    /// Records that the history of this item may be too long for its worker. If workers
    /// disconnect on it again and again, the instance fails.
    pub fn sent_long(&self, token: &str) {
        self.desk.sent_long(token);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.desk.vacate(self.id);
    }
}

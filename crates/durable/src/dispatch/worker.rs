//! A stream of work for one worker.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::desk::Desk;
use super::seat::Seat;
use crate::work::{Item, Terms};

/// A stream of work for one worker. Dropping it gives back what it had.
pub struct Worker {
    desk: Arc<Desk>,
    id: u64,
    items: mpsc::UnboundedReceiver<Item>,
}

impl Worker {
    pub(crate) fn new(desk: Arc<Desk>, terms: Terms) -> Self {
        let (sender, items) = mpsc::unbounded_channel();
        let id = desk.seat(Seat::new(terms, sender));
        Self { desk, id, items }
    }

    /// The next thing to do; `None` when the node leaves. Nothing is lost if this is
    /// dropped while it waits.
    pub async fn next(&mut self) -> Option<Item> {
        self.items.recv().await
    }

    /// What was sent last has a history that may be too long for whoever gets it.
    /// If the worker goes away on it again and again, the instance fails.
    pub fn sent_long(&self, token: &str) {
        self.desk.sent_long(token);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.desk.vacate(self.id);
    }
}

//! A stream of work for one worker.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::desk::Desk;
use super::seat::Seat;
use crate::aide::Operator;
use crate::work::{Item, Terms};

/// A stream of work for one worker. Dropping it gives back what it had.
pub struct Worker {
    desk: Arc<Desk>,
    id: u64,
    items: mpsc::UnboundedReceiver<Item>,
    /// Items of other nodes.
    foreign: Option<mpsc::UnboundedReceiver<Item>>,
}

/// Where a worker gets items of other nodes.
#[derive(Clone)]
pub(crate) struct Inbox(mpsc::UnboundedSender<Item>);

impl Inbox {
    /// Gives the worker something; one that has gone leaves it to the lease.
    pub(crate) fn put(&self, item: Item) {
        let _ = self.0.send(item);
    }

    /// Resolves when the worker has gone.
    pub(crate) async fn closed(&self) {
        self.0.closed().await;
    }
}

impl Worker {
    /// A worker, and the way by which others give it something.
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

    /// It is in this process, and is not given the history of what it remembers.
    pub(crate) fn remember(&self, memory: Arc<dyn Operator>) {
        self.desk.remember(self.id, memory);
    }

    /// The next thing to do; `None` when the node leaves. Nothing is lost if this is
    /// dropped while it waits.
    pub async fn next(&mut self) -> Option<Item> {
        let Some(foreign) = &mut self.foreign else {
            return self.items.recv().await;
        };
        tokio::select! {
            item = self.items.recv() => item,
            Some(item) = foreign.recv() => Some(item),
        }
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

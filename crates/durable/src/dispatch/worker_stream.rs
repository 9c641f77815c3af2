//! The stream of work for one worker.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::work_queue::WorkQueue;
use super::worker_slot::{RelaySeats, WorkerSlot};
use crate::inline::InlineExecutor;
use crate::work::{WorkDelivery, WorkerOptions};

/// The stream of work for one worker. When it is dropped, its items are assigned again.
pub struct WorkerStream {
    queue: Arc<WorkQueue>,
    id: u64,
    items: mpsc::UnboundedReceiver<WorkDelivery>,
    /// Items of other nodes.
    foreign: Option<mpsc::UnboundedReceiver<WorkDelivery>>,
}

/// Sends a worker the items of other nodes.
#[derive(Clone)]
pub(crate) struct WorkSender {
    sender: mpsc::UnboundedSender<WorkDelivery>,
    seats: RelaySeats,
}

impl WorkSender {
    /// Sends an item; if the worker has disconnected, the lease returns the item to the
    /// queue.
    pub(crate) fn put(&self, item: WorkDelivery) {
        let _ = self.sender.send(item);
    }

    /// Notes the id of the worker at a node; `None`: the node has it no more.
    pub(crate) fn set_seat(&self, node: &str, seat: Option<u64>) {
        let mut seats = self.seats.lock();
        match seat {
            Some(seat) => drop(seats.insert(node.to_owned(), seat)),
            None => drop(seats.remove(node)),
        }
    }

    /// Completes when the worker has disconnected.
    pub(crate) async fn closed(&self) {
        self.sender.closed().await;
    }
}

impl WorkerStream {
    /// A worker, and the sender for items of other nodes.
    pub(crate) fn shared(desk: Arc<WorkQueue>, terms: WorkerOptions) -> (Self, WorkSender) {
        let (to_worker, items) = mpsc::unbounded_channel();
        let slot = WorkerSlot::new(terms, desk.clock.now(), to_worker);
        let (sender, foreign) = mpsc::unbounded_channel();
        let seats = slot.seats();
        let mut worker = Self::of(desk, slot, items);
        worker.foreign = Some(foreign);
        (worker, WorkSender { sender, seats })
    }

    pub(crate) fn new(queue: Arc<WorkQueue>, terms: WorkerOptions) -> Self {
        let (sender, items) = mpsc::unbounded_channel();
        let slot = WorkerSlot::new(terms, queue.clock.now(), sender);
        Self::of(queue, slot, items)
    }

    /// A worker of another node, with its id here.
    pub(crate) fn guest(queue: Arc<WorkQueue>, terms: WorkerOptions, seat: u64) -> Self {
        let (sender, items) = mpsc::unbounded_channel();
        let slot = WorkerSlot::new(terms, queue.clock.now(), sender).of_peer(seat);
        Self::of(queue, slot, items)
    }

    fn of(
        queue: Arc<WorkQueue>,
        slot: WorkerSlot,
        items: mpsc::UnboundedReceiver<WorkDelivery>,
    ) -> Self {
        let id = queue.add_worker(slot);
        Self {
            queue,
            id,
            items,
            foreign: None,
        }
    }

    /// Declares that the worker is in this process; it is not sent the histories of instances
    /// that it has in memory.
    pub(crate) fn remember(&self, memory: Arc<dyn InlineExecutor>) {
        self.queue.remember(self.id, memory);
    }

    /// The next item; `None` when the node shuts down. This is cancel-safe: no item is lost
    /// if the future is dropped.
    pub async fn next(&mut self) -> Option<WorkDelivery> {
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
        self.queue.sent_long(token);
    }
}

impl Drop for WorkerStream {
    fn drop(&mut self) {
        self.queue.remove_worker(self.id);
    }
}

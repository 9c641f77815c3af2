//! The other nodes of the cluster and their workers.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use steadfast_partition::Result as PartitionResult;
use tokio::sync::watch;

use crate::dispatch::WorkerStream;

/// The other nodes.
#[async_trait]
pub trait WorkerPeers: Send + Sync + 'static {
    /// The names of the nodes.
    fn names(&self) -> Vec<String>;

    /// Notifies when the names may have changed.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Sends a message to a node and returns its answer.
    async fn request(&self, name: &str, word: Bytes) -> PartitionResult<Bytes>;
}

/// Workers of other nodes.
#[derive(Default)]
pub(super) struct RemoteWorkers {
    seats: Mutex<HashMap<u64, Arc<RemoteWorker>>>,
}

pub(super) struct RemoteWorker {
    pub(super) worker: tokio::sync::Mutex<WorkerStream>,
    /// How often its node has pulled work.
    pub(super) asked: Mutex<u64>,
}

/// A pull request of a node for one of its workers. If this is dropped before the answer,
/// the connection is broken, and the worker's items are assigned to others at once.
pub(super) struct PullGuard<'a> {
    guests: &'a RemoteWorkers,
    seat: u64,
    pub(super) guest: Arc<RemoteWorker>,
    pub(super) is_answered: bool,
}

impl RemoteWorkers {
    /// Begins a pull for a worker; connects a new worker.
    pub(super) fn ask(&self, seat: u64, worker: impl FnOnce() -> WorkerStream) -> PullGuard<'_> {
        let mut seats = self.seats.lock();
        let guest = seats.entry(seat).or_insert_with(|| {
            Arc::new(RemoteWorker {
                worker: tokio::sync::Mutex::new(worker()),
                asked: Mutex::new(0),
            })
        });
        *guest.asked.lock() += 1;
        PullGuard {
            guests: self,
            seat,
            guest: Arc::clone(guest),
            is_answered: false,
        }
    }

    /// Removes a worker that has disconnected.
    pub(super) fn leave(&self, seat: u64) {
        // Its items are assigned to others without this lock.
        let gone = self.seats.lock().remove(&seat);
        drop(gone);
    }

    /// Removes a worker, unless another one has taken its id.
    pub(super) fn give_up(&self, seat: u64, guest: &Arc<RemoteWorker>) {
        let mut seats = self.seats.lock();
        let is_same = seats.get(&seat).is_some_and(|own| Arc::ptr_eq(own, guest));
        let gone = is_same.then(|| seats.remove(&seat));
        drop(seats);
        drop(gone);
    }
}

impl Drop for PullGuard<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.guests.give_up(self.seat, &self.guest);
        }
    }
}

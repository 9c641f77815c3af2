//! Other nodes, as task hubs know them.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use steadfast_partition::Result as PartitionResult;
use tokio::sync::watch;

use crate::dispatch::Worker;

/// The other nodes.
#[async_trait]
pub trait Others: Send + Sync + 'static {
    /// Their names; rings when they change.
    fn names(&self) -> Vec<String>;

    /// Rings when the names may have changed.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Tells one of them something.
    async fn tell(&self, name: &str, word: Bytes) -> PartitionResult<Bytes>;
}

/// Workers of other nodes.
#[derive(Default)]
pub(super) struct Guests {
    seats: Mutex<HashMap<u64, Arc<Guest>>>,
}

pub(super) struct Guest {
    pub(super) worker: tokio::sync::Mutex<Worker>,
    /// How often its node has asked.
    pub(super) asked: Mutex<u64>,
}

/// A node asks for work of a seat. If this is dropped before there is an answer, the way
/// to the node is broken: what the seat has goes to others at once.
pub(super) struct Asking<'a> {
    guests: &'a Guests,
    seat: u64,
    pub(super) guest: Arc<Guest>,
    pub(super) is_answered: bool,
}

impl Guests {
    /// The seat is asked for; a new one gets a worker.
    pub(super) fn ask(&self, seat: u64, worker: impl FnOnce() -> Worker) -> Asking<'_> {
        let mut seats = self.seats.lock();
        let guest = seats.entry(seat).or_insert_with(|| {
            Arc::new(Guest {
                worker: tokio::sync::Mutex::new(worker()),
                asked: Mutex::new(0),
            })
        });
        *guest.asked.lock() += 1;
        Asking {
            guests: self,
            seat,
            guest: Arc::clone(guest),
            is_answered: false,
        }
    }

    /// The worker of a seat has gone.
    pub(super) fn leave(&self, seat: u64) {
        // What it had is given to others without this lock.
        let gone = self.seats.lock().remove(&seat);
        drop(gone);
    }

    /// Gives a seat up, unless somebody else has taken it.
    pub(super) fn give_up(&self, seat: u64, guest: &Arc<Guest>) {
        let mut seats = self.seats.lock();
        let is_same = seats.get(&seat).is_some_and(|own| Arc::ptr_eq(own, guest));
        let gone = is_same.then(|| seats.remove(&seat));
        drop(seats);
        drop(gone);
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.guests.give_up(self.seat, &self.guest);
        }
    }
}

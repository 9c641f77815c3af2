//! The row of an entity, and an entity loaded for a command.

use steadfast_collections::schema::Record;
use steadfast_core::clock::Timestamp;
use steadfast_partition::{Address, Envelope, Turn, TurnError};

use crate::command::{Command, LockCommand, OperationRequest, WorkRequest};
use crate::id;
use crate::rows::{self, ENTITIES, QUEUE, STATES, key_of, marked, numbered};

/// The lane of the lock holder.
pub(crate) const FRONT: u8 = b'f';
/// The lane of all other callers.
pub(crate) const MAIN: u8 = b'm';

/// The row of an entity. State and requests have rows of their own.
#[derive(Record, Clone, Debug, Default)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct EntityRecord {
    /// Whether there is a state.
    #[n(0)]
    pub(crate) exists: bool,
    #[n(1)]
    pub(crate) modified: Timestamp,
    /// The lanes: the first number, and the one after the last.
    #[n(2)]
    pub(crate) front: u64,
    #[n(3)]
    pub(crate) front_end: u64,
    #[n(4)]
    pub(crate) main: u64,
    #[n(5)]
    pub(crate) main_end: u64,
    /// The numbers of the main lane that are lock requests.
    #[n(6)]
    pub(crate) lock_requests: Vec<u64>,
    #[n(7)]
    pub(crate) lock_holder: Option<LockHolder>,
    /// The number of dispatches.
    #[n(8)]
    pub(crate) generation: u64,
    /// Whether a worker was requested.
    #[n(9)]
    pub(crate) is_open: bool,
    /// The numbers of the main lane that were withdrawn.
    #[n(10)]
    pub(crate) gaps: Vec<u64>,
}

/// The holder of the lock.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) struct LockHolder {
    #[n(0)]
    pub(crate) section: String,
    #[n(1)]
    pub(crate) instance: String,
    #[n(2)]
    pub(crate) execution: String,
    #[n(3)]
    pub(crate) since: Timestamp,
}

/// A waiting row of a lane.
#[derive(Record, Clone, Debug, PartialEq, Eq)]
#[record(crate = "steadfast_collections", closed)]
pub(crate) enum QueueRecord {
    #[n(0)]
    Request(OperationRequest),
    #[n(1)]
    Lock(LockCommand),
}

impl EntityRecord {
    /// The number of waiting requests.
    pub(crate) fn backlog(&self) -> u64 {
        let waiting = (self.front_end - self.front) + (self.main_end - self.main);
        waiting - self.gaps.len() as u64
    }

    /// Whether it has no waiting requests, no worker and no lock holder.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.backlog() == 0 && !self.is_open && self.lock_holder.is_none()
    }

    fn is_idle(&self) -> bool {
        self.backlog() == 0 && self.lock_holder.is_none() && !self.exists
    }
}

/// The keys of a lane.
fn lane(key: &[u8], lane: u8, number: u64) -> Vec<u8> {
    numbered(&marked(key, lane), number)
}

/// An entity, its rows, and the turn that changes them.
pub(crate) struct LoadedEntity<'a, 't> {
    pub(crate) turn: &'a mut Turn<'t>,
    pub(crate) to: &'a Address,
    pub(crate) key: Vec<u8>,
    pub(crate) row: EntityRecord,
}

impl<'a, 't> LoadedEntity<'a, 't> {
    /// Loads the entity; it is created when it is first addressed.
    pub(crate) fn find(turn: &'a mut Turn<'t>, to: &'a Address) -> Result<Self, TurnError> {
        let key = key_of(to);
        let row = rows::read(turn, ENTITIES, &key)?.unwrap_or_default();
        Ok(Self { turn, to, key, row })
    }

    /// Its id.
    pub(crate) fn id(&self) -> String {
        String::from_utf8_lossy(&self.to.key).into_owned()
    }

    /// Sends a command to another instance.
    pub(crate) fn send(&mut self, instance: &str, ask: &Command) {
        let to = id::sibling_address(self.to, instance);
        self.turn.send(Envelope::new(to, rows::encode(ask)));
    }

    /// Appends to a lane.
    pub(crate) fn queue(&mut self, into: u8, queued: &QueueRecord) {
        let end = match into {
            FRONT => &mut self.row.front_end,
            _ => &mut self.row.main_end,
        };
        let number = *end;
        *end += 1;
        if matches!(queued, QueueRecord::Lock(_)) {
            self.row.lock_requests.push(number);
        }
        let key = lane(&self.key, into, number);
        self.turn.put(QUEUE, &key, rows::encode(queued));
    }

    /// Reads a row of the main lane.
    pub(crate) fn waiting(&mut self, number: u64) -> Result<Option<QueueRecord>, TurnError> {
        let key = lane(&self.key, MAIN, number);
        rows::read(self.turn, QUEUE, &key)
    }

    /// Removes a row of a lane.
    pub(crate) fn remove(&mut self, from: u8, number: u64) {
        self.turn.delete(QUEUE, &lane(&self.key, from, number));
    }

    /// Moves the head of the main lane.
    pub(crate) fn advance(&mut self, head: u64) {
        self.row.main = head;
        self.row.gaps.retain(|gap| *gap >= head);
    }

    fn work_id(&self) -> Vec<u8> {
        marked(&self.key, b'b')
    }

    /// Closes the request for a worker.
    pub(crate) fn close(&mut self) {
        if self.row.is_open {
            let id = self.work_id();
            self.turn.close_work(&id);
            self.row.is_open = false;
        }
    }

    /// Requests a worker.
    pub(crate) fn open(&mut self) {
        self.row.is_open = true;
        self.row.generation += 1;
        let wish = WorkRequest::Batch {
            generation: self.row.generation,
        };
        let id = self.work_id();
        self.turn.open_work(id, wish.encode());
    }

    /// Writes the row, or deletes it for an entity without state, requests and lock.
    pub(crate) fn save(self) {
        if self.row.is_idle() {
            self.turn.delete(ENTITIES, &self.key);
            self.turn.delete(STATES, &self.key);
        } else {
            self.turn.put(ENTITIES, &self.key, rows::encode(&self.row))
        }
    }
}

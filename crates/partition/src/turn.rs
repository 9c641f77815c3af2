//! One turn of a service: its reads, writes and effects.
//!
//! A turn sees the owner's memory: every write that was staged, durable or not, and its
//! own. It has no effect before it succeeds. A row that is not in memory ends it with
//! [`Halt::Missing`].

use bytes::Bytes;
use steadfast_core::clock::Timestamp;
use steadfast_core::id::{Offset, Partition, Sequence, Stream, Table};
use steadfast_storage::engine::BATCH_HEADER_BYTES;
use steadfast_storage::{Head, Ledger, Peek, Place, View, Writes};

use crate::address::{Address, Envelope, Kind};
use crate::command::Errand;
use crate::draft::{CallId, Draft, Timer, timer_key};
use crate::effect::{Effect, Performer};
use crate::errand::{Ticket, Trip};
use crate::message::{Message, Payload};
use crate::post::Posts;
use crate::refusal::Halt;
use crate::space::Space;
use crate::tables::{TIMERS, WORK};
use crate::warm::{Row, Warm};
use crate::written::Written;

/// The context of a service while it handles a command.
pub struct Turn<'a> {
    ledger: &'a Ledger,
    space: &'a Space,
    warm: &'a Warm,
    time: Timestamp,
    /// The instance whose command is being handled.
    pub(crate) to: &'a Address,
    /// The call that waits for the answer.
    pub(crate) call: Option<CallId>,
    pub(crate) writes: Writes,
    /// The writes of this turn, for its own reads.
    pub(crate) own: Written,
    /// Streams as this turn leaves them.
    heads: Vec<(Stream, Head)>,
    pub(crate) missing: Vec<Row>,
    pub(crate) draft: Draft,
    outside: Outside<'a>,
}

/// What a turn uses beside its rows.
pub(crate) struct Outside<'a> {
    pub(crate) performer: &'a dyn Performer,
    pub(crate) posts: &'a Posts,
    /// The suspension of the command; `None` if it cannot be suspended.
    pub(crate) errand: Option<&'a Errand>,
    /// The number of the next suspension.
    pub(crate) number: u64,
}

impl<'a> Turn<'a> {
    pub(crate) fn new(
        ledger: &'a Ledger,
        space: &'a Space,
        warm: &'a Warm,
        time: Timestamp,
        to: &'a Address,
        writes: Writes,
        outside: Outside<'a>,
    ) -> Self {
        Self {
            ledger,
            space,
            warm,
            time,
            to,
            call: None,
            writes,
            own: Written::default(),
            heads: Vec::new(),
            missing: Vec::new(),
            draft: Draft::default(),
            outside,
        }
    }

    /// The owner's time: it never goes back.
    pub fn time(&self) -> Timestamp {
        self.time
    }

    /// The partition of this turn.
    pub fn partition(&self) -> Partition {
        self.ledger.partition()
    }

    /// The partition of slot `slot` of a named thing.
    pub fn slot(&self, kind: Kind, name: &str, slot: u32) -> Partition {
        self.space.slot(kind, name, slot)
    }

    /// The performer's helper for this service, if it is of this type.
    pub fn helper<T: 'static>(&self) -> Option<&'a T> {
        let helper = self.outside.performer.helper(self.to.kind)?;
        helper.downcast_ref()
    }

    /// Whether code outside the loop has run for this command, and its result. A
    /// command has one suspension; a turn may read its result several times, when rows
    /// have to be loaded.
    pub fn errand<R: Send + Sync + 'static>(&self) -> Trip<R> {
        match self.outside.errand {
            None => Trip::Never,
            Some(Errand::Back(returned)) => {
                let answer = returned.clone().and_then(|any| any.downcast().ok());
                Trip::Back(answer)
            }
            Some(Errand::None | Errand::Away(_)) => Trip::Open,
        }
    }

    /// A completer for the suspension of this command. The service passes it to the
    /// code outside, and then ends its turn with [`Halt::Away`].
    pub fn ticket(&self) -> Ticket {
        let Outside { posts, number, .. } = &self.outside;
        Ticket::new((*posts).clone(), self.to.clone(), *number)
    }

    /// Reads a row.
    pub fn get(&mut self, table: Table, key: &[u8]) -> Result<Option<Bytes>, Halt> {
        if let Some(value) = self.own.get(table, key) {
            return Ok(value.clone());
        }
        match self.ledger.peek(table, key, View::Staged) {
            Ok(Peek::Found(value)) => Ok(value),
            // If the ledger has failed, the following stage fails with its reason.
            Err(_) => Ok(None),
            Ok(Peek::Missing) => match self.warm.get(table, key) {
                Some(value) => Ok(value),
                None => {
                    self.missing.push((table, Bytes::copy_from_slice(key)));
                    Err(Halt::Missing)
                }
            },
        }
    }

    /// Makes sure that all these rows are in memory, so that they are loaded
    /// together and not one after the other.
    pub fn need(&mut self, rows: &[(Table, &[u8])]) -> Result<(), Halt> {
        let found = rows
            .iter()
            .filter(|(table, key)| self.get(*table, key).is_ok());
        match found.count() == rows.len() {
            true => Ok(()),
            false => Err(Halt::Missing),
        }
    }

    /// Sets a row.
    pub fn put(&mut self, table: Table, key: &[u8], value: impl Into<Bytes>) {
        let value = value.into();
        self.writes.put(table, key, &value);
        self.own.set(table, key, Some(value));
    }

    /// Removes a row.
    pub fn delete(&mut self, table: Table, key: &[u8]) {
        self.writes.delete(table, key);
        self.own.set(table, key, None);
    }

    /// Appends `count` events, encoded in `bytes`, to a stream of the service; answers
    /// their position. The loop is the only writer of such a stream.
    pub fn publish(&mut self, stream: Stream, count: u32, bytes: Bytes) -> Place {
        let mut head = self.staged_stream(stream);
        let place = Place {
            stream,
            first: head.next,
            offset: head.end,
        };
        head.next = head.next.plus(count);
        head.end.0 += (BATCH_HEADER_BYTES + bytes.len()) as u64;
        head.time = self.time;
        self.leave(stream, head);
        self.writes.publish(stream, count, bytes);
        place
    }

    /// Trims the events of a stream before `first`, whose batch starts at `offset`.
    pub fn trim(&mut self, stream: Stream, first: Sequence, offset: Offset) {
        let mut head = self.staged_stream(stream);
        if first > head.first && first <= head.next {
            (head.first, head.first_offset) = (first, offset);
            self.leave(stream, head);
        }
        self.writes.trim(stream, first, offset);
    }

    /// Begin and end of a stream, including staged writes and those of this turn.
    pub fn staged_stream(&self, stream: Stream) -> Head {
        let own = self.heads.iter().find(|(other, _)| *other == stream);
        if let Some((_, head)) = own {
            return *head;
        }
        // If the ledger has failed, the following stage fails with its reason.
        let head = self.ledger.staged_stream(stream).ok().flatten();
        head.unwrap_or_default()
    }

    fn leave(&mut self, stream: Stream, head: Head) {
        self.heads.retain(|(other, _)| *other != stream);
        self.heads.push((stream, head));
    }

    /// Begin and durable end of a stream.
    pub fn stream(&self, stream: Stream) -> Option<Head> {
        self.ledger.stream(stream).ok().flatten()
    }

    /// Sends a message to an instance of this space: exactly once, in order, after
    /// the commit.
    pub fn send(&mut self, envelope: Envelope) {
        let to = self.space.partition(&envelope.to);
        self.send_to(to, envelope);
    }

    /// Sends a message to an instance in a given partition, not in that of its hash: a
    /// slot, or another space.
    pub fn send_to(&mut self, partition: Partition, envelope: Envelope) {
        self.draft.sends.push((partition, envelope));
    }

    /// Sends `body` to this instance at `due` or soon after. Due time and tag name
    /// the timer: the same again replaces it.
    pub fn schedule(&mut self, due: Timestamp, tag: u64, body: impl Into<Bytes>) {
        let (key, body) = (timer_key(due, self.to, tag), body.into());
        self.writes.put(TIMERS, &key, &body);
        self.draft.timers.push(Timer { key, body });
    }

    /// Cancels a timer of this instance; does nothing if there is none.
    pub fn cancel(&mut self, due: Timestamp, tag: u64) {
        let key = timer_key(due, self.to, tag);
        self.writes.delete(TIMERS, &key);
        self.draft.timers.retain(|timer| timer.key != key);
        self.draft.cancels.push(key);
    }

    /// Starts an effect after the commit, and again after every load of the partition,
    /// until [`Turn::close_work`]. Ids are unique per service.
    pub fn open_work(&mut self, id: impl Into<Bytes>, body: impl Into<Bytes>) {
        let (id, body) = (id.into(), body.into());
        let row = Envelope::new(self.to.clone(), body.clone()).encode();
        self.writes.put(WORK, &work_key(self.to, &id), &row);
        let effect = self.effect(Some(id), body);
        self.draft.effects.push(effect);
    }

    /// Ends work that is done or no longer needed.
    pub fn close_work(&mut self, id: &[u8]) {
        self.writes.delete(WORK, &work_key(self.to, id));
        let is_other = |effect: &Effect| effect.work.as_deref() != Some(id);
        self.draft.effects.retain(is_other);
    }

    /// Starts an effect after the commit, at most once: it is lost with the node.
    pub fn push(&mut self, body: impl Into<Bytes>) {
        let effect = self.effect(None, body.into());
        self.draft.effects.push(effect);
    }

    /// The call that is being handled, for an answer by a later turn. `None` if no
    /// caller waits.
    pub fn call(&self) -> Option<CallId> {
        self.call
    }

    /// Answers a call that an earlier turn left open. Does nothing if the caller is
    /// gone.
    pub fn answer<M: Message>(&mut self, call: CallId, reply: M) {
        self.draft.answers.push((call, Payload::value(reply)));
    }

    fn effect(&self, work: Option<Bytes>, body: Bytes) -> Effect {
        Effect {
            partition: self.ledger.partition(),
            epoch: self.ledger.tenure(),
            from: self.to.clone(),
            work,
            body,
        }
    }
}

/// The key of a work's row.
pub(crate) fn work_key(from: &Address, id: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(2 + id.len());
    key.extend_from_slice(&from.kind.0.to_be_bytes());
    key.extend_from_slice(id);
    key
}

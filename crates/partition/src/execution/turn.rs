//! One turn of a service: its reads, writes and effects.
//!
//! A service is plain synchronous code: a turn, an address and a command go in, an
//! answer comes out. It keeps no state between commands; its state is rows. It never
//! runs twice at a time for one partition.
//!
//! A turn sees the owner's memory: every write that was staged, durable or not, and its
//! own. It has no effect before it succeeds. A row that is not in memory ends it with
//! [`TurnError::Missing`].

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::clock::Timestamp;
use steadfast_core::codec::DecodeError;
use steadfast_core::error::Code;
use steadfast_core::id::{Offset, Partition, Sequence, StreamId, TableId};
use steadfast_storage::engine::BATCH_HEADER_BYTES;
use steadfast_storage::{AppendPosition, Ledger, MemoryLookup, StreamHead, Visibility, Writes};

use crate::execution::effect::{Effect, Performer};
use crate::execution::pending_effects::{CallId, PendingEffects, Timer, timer_key};
use crate::execution::pinned_rows::{PinnedRows, RowAddress};
use crate::execution::service_error::{ServiceError, TurnError};
use crate::execution::suspension::{Completer, SuspensionState};
use crate::execution::tables::{TIMERS, WORK};
use crate::execution::write_buffer::WriteBuffer;
use crate::ingress::address::{Address, Envelope, ServiceKind};
use crate::ingress::command::Suspension;
use crate::ingress::control::ControlSender;
use crate::ingress::message::{Message, MessagePayload};
use crate::ingress::space::Space;

/// The context of a service while it handles a command.
pub struct Turn<'a> {
    ledger: &'a Ledger,
    space: &'a Space,
    pinned: &'a PinnedRows,
    time: Timestamp,
    /// The instance whose command is being handled.
    pub(crate) to: &'a Address,
    /// The call that waits for the answer.
    pub(crate) call: Option<CallId>,
    pub(crate) writes: Writes,
    /// The writes of this turn, for its own reads.
    pub(crate) own: WriteBuffer,
    /// Streams as this turn leaves them.
    heads: Vec<(StreamId, StreamHead)>,
    pub(crate) missing: Vec<RowAddress>,
    pub(crate) draft: PendingEffects,
    outside: TurnEnvironment<'a>,
}

/// What a turn uses beside its rows.
pub(crate) struct TurnEnvironment<'a> {
    pub(crate) services: &'a Services,
    pub(crate) performer: &'a dyn Performer,
    pub(crate) control: &'a ControlSender,
    /// The suspension of the command; `None` if it cannot be suspended.
    pub(crate) suspension: Option<&'a Suspension>,
    /// The number of the next suspension.
    pub(crate) number: u64,
}

impl<'a> Turn<'a> {
    pub(crate) fn new(
        ledger: &'a Ledger,
        space: &'a Space,
        pinned: &'a PinnedRows,
        time: Timestamp,
        to: &'a Address,
        writes: Writes,
        outside: TurnEnvironment<'a>,
    ) -> Self {
        Self {
            ledger,
            space,
            pinned,
            time,
            to,
            call: None,
            writes,
            own: WriteBuffer::default(),
            heads: Vec::new(),
            missing: Vec::new(),
            draft: PendingEffects::default(),
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

    /// The store partition of partition `number` of a named thing.
    pub fn partition_of(&self, kind: ServiceKind, name: &str, number: u32) -> Partition {
        self.space.partition_of(kind, name, number)
    }

    /// The performer's helper for this service, if it is of this type.
    pub fn helper<T: 'static>(&self) -> Option<&'a T> {
        let helper = self.outside.performer.helper(self.to.kind)?;
        helper.downcast_ref()
    }

    /// Whether code outside the loop has run for this command, and its result. A
    /// command has one suspension; a turn may read its result several times, when rows
    /// have to be loaded.
    pub fn suspension<R: Send + Sync + 'static>(&self) -> SuspensionState<R> {
        match self.outside.suspension {
            None => SuspensionState::Unavailable,
            Some(Suspension::Completed(returned)) => {
                let answer = returned.clone().and_then(|any| any.downcast().ok());
                SuspensionState::Completed(answer)
            }
            Some(Suspension::None | Suspension::Suspended(_)) => SuspensionState::NotStarted,
        }
    }

    /// A completer for the suspension of this command. The service passes it to the
    /// code outside, and then ends its turn with [`TurnError::Suspended`].
    pub fn completer(&self) -> Completer {
        let TurnEnvironment {
            control: posts,
            number,
            ..
        } = &self.outside;
        Completer::new((*posts).clone(), self.to.clone(), *number)
    }

    /// Reads a row.
    pub fn get(&mut self, table: TableId, key: &[u8]) -> Result<Option<Bytes>, TurnError> {
        if let Some(value) = self.own.get(table, key) {
            return Ok(value.clone());
        }
        match self.ledger.peek(table, key, Visibility::Staged) {
            Ok(MemoryLookup::Found(value)) => Ok(value),
            // If the ledger has failed, the following stage fails with its reason.
            Err(_) => Ok(None),
            Ok(MemoryLookup::Missing) => match self.pinned.get(table, key) {
                Some(value) => Ok(value),
                None => {
                    self.missing.push((table, Bytes::copy_from_slice(key)));
                    Err(TurnError::Missing)
                }
            },
        }
    }

    /// Makes sure that all these rows are in memory, so that they are loaded
    /// together and not one after the other.
    pub fn need(&mut self, rows: &[(TableId, &[u8])]) -> Result<(), TurnError> {
        let found = rows
            .iter()
            .filter(|(table, key)| self.get(*table, key).is_ok());
        if found.count() == rows.len() {
            Ok(())
        } else {
            Err(TurnError::Missing)
        }
    }

    /// Sets a row.
    pub fn put(&mut self, table: TableId, key: &[u8], value: impl Into<Bytes>) {
        let value = value.into();
        self.writes.put(table, key, &value);
        self.own.set(table, key, Some(value));
    }

    /// Removes a row.
    pub fn delete(&mut self, table: TableId, key: &[u8]) {
        self.writes.delete(table, key);
        self.own.set(table, key, None);
    }

    /// Appends `count` events, encoded in `bytes`, to a stream of the service; answers
    /// their position. The loop is the only writer of such a stream.
    pub fn publish(&mut self, stream: StreamId, count: u32, bytes: Bytes) -> AppendPosition {
        let mut head = self.staged_stream(stream);
        let place = AppendPosition {
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
    pub fn trim(&mut self, stream: StreamId, first: Sequence, offset: Offset) {
        let mut head = self.staged_stream(stream);
        if first > head.first && first <= head.next {
            (head.first, head.first_offset) = (first, offset);
            self.leave(stream, head);
        }
        self.writes.trim(stream, first, offset);
    }

    /// Begin and end of a stream, including staged writes and those of this turn.
    pub fn staged_stream(&self, stream: StreamId) -> StreamHead {
        let own = self.heads.iter().find(|(other, _)| *other == stream);
        if let Some((_, head)) = own {
            return *head;
        }
        // If the ledger has failed, the following stage fails with its reason.
        let head = self.ledger.staged_stream(stream).ok().flatten();
        head.unwrap_or_default()
    }

    fn leave(&mut self, stream: StreamId, head: StreamHead) {
        self.heads.retain(|(other, _)| *other != stream);
        self.heads.push((stream, head));
    }

    /// Begin and durable end of a stream.
    pub fn stream(&self, stream: StreamId) -> Option<StreamHead> {
        self.ledger.stream(stream).ok().flatten()
    }

    /// Sends a message to an instance of this space, in the partition in which its service
    /// keeps it: exactly once, in order, after the commit. A message to a service that is in
    /// every partition stays in this one.
    pub fn send(&mut self, envelope: Envelope) {
        let to = self.outside.services.partition(self.space, &envelope.to);
        self.send_to(to.unwrap_or_else(|| self.partition()), envelope);
    }

    /// Sends a message to an instance in a given partition, such as one of a named thing.
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
        self.draft
            .answers
            .push((call, MessagePayload::value(reply)));
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

/// A service that runs in partitions.
pub trait Service: Send + Sync + 'static {
    /// Its commands, from callers, messages and timers.
    type Command: Message;
    /// Its response to a caller.
    type Response: Message;

    /// The kind in the addresses of its instances.
    fn kind(&self) -> ServiceKind;

    /// Whether the timers of an instance fire in the order of their due times. If not,
    /// a timer that has just become due does not wait while very many others are due.
    fn keeps_timer_order(&self) -> bool {
        true
    }

    /// The partition in which it keeps an instance: that of the hash of the address, unless
    /// instances that belong together lie side by side. `None`: it has no rows, and runs a
    /// command in whatever partition it is sent from.
    fn partition(&self, space: &Space, to: &Address) -> Option<Partition> {
        Some(space.partition(to))
    }

    /// Handles one command. It may run several times for one command, when rows
    /// have to be loaded first; only the last run counts. It must not panic on rows
    /// that do not fit together: an owner that has lost its partition, and does not
    /// know it yet, may read rows of its successor. Nothing of such a turn is ever
    /// committed.
    fn handle(
        &self,
        turn: &mut Turn<'_>,
        to: &Address,
        command: &Self::Command,
    ) -> Result<TurnOutcome<Self::Response>, TurnError>;
}

/// When a caller gets its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnOutcome<R> {
    /// Now: this answer, as soon as the commit is durable.
    Now(R),
    /// Later: another turn answers, see [`Turn::answer`].
    Later,
}

/// The services of a node, by kind.
#[derive(Clone, Default)]
pub struct Services {
    by_kind: BTreeMap<ServiceKind, Arc<dyn ErasedService>>,
}

impl Services {
    /// No service.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a service, replacing an earlier one of its kind.
    pub fn with(mut self, service: impl Service) -> Self {
        self.by_kind.insert(service.kind(), Arc::new(service));
        self
    }

    pub(crate) fn get(&self, kind: ServiceKind) -> Option<&Arc<dyn ErasedService>> {
        self.by_kind.get(&kind)
    }

    /// The partition in which an instance is kept; `None`: in none of its own.
    pub(crate) fn partition(&self, space: &Space, to: &Address) -> Option<Partition> {
        match self.get(to.kind) {
            Some(service) => service.partition(space, to),
            None => Some(space.partition(to)),
        }
    }

    /// The services whose timers need not keep an order.
    pub(crate) fn unordered(&self) -> Vec<ServiceKind> {
        let unordered = self
            .by_kind
            .iter()
            .filter(|(_, service)| !service.keeps_timer_order());
        unordered.map(|(kind, _)| *kind).collect()
    }
}

/// A service with erased types.
pub(crate) trait ErasedService: Send + Sync {
    fn keeps_timer_order(&self) -> bool;

    fn partition(&self, space: &Space, to: &Address) -> Option<Partition>;

    fn handle(
        &self,
        turn: &mut Turn<'_>,
        to: &Address,
        command: &mut MessagePayload,
    ) -> Result<TurnOutcome<MessagePayload>, TurnError>;

    /// Encodes a reply for another node.
    fn encode(&self, reply: MessagePayload) -> Result<Bytes, DecodeError>;
}

/// The code for a message that the service cannot decode.
pub(crate) const MALFORMED: Code = Code("STF-4006");

impl<S: Service> ErasedService for S {
    fn keeps_timer_order(&self) -> bool {
        Service::keeps_timer_order(self)
    }

    fn partition(&self, space: &Space, to: &Address) -> Option<Partition> {
        Service::partition(self, space, to)
    }

    fn handle(
        &self,
        turn: &mut Turn<'_>,
        to: &Address,
        command: &mut MessagePayload,
    ) -> Result<TurnOutcome<MessagePayload>, TurnError> {
        let command = command.look::<S::Command>().map_err(|_| {
            ServiceError::new(MALFORMED, format!("the message to {to} cannot be read"))
        })?;
        Ok(match Service::handle(self, turn, to, command)? {
            TurnOutcome::Now(reply) => TurnOutcome::Now(MessagePayload::value(reply)),
            TurnOutcome::Later => TurnOutcome::Later,
        })
    }

    fn encode(&self, reply: MessagePayload) -> Result<Bytes, DecodeError> {
        match reply {
            MessagePayload::Bytes(bytes) | MessagePayload::Read(bytes, _) => Ok(bytes),
            MessagePayload::Value(value) => {
                let value: Box<dyn Any> = value;
                let reply = value.downcast_ref::<S::Response>().ok_or(DecodeError)?;
                Ok(reply.encode())
            }
        }
    }
}

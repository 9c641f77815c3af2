//! Runs one command: decide, stage, remember.
//!
//! A service decides on a turn that has no effect yet. Then its rows are staged in one
//! transaction, together with the rows that keep the command from being handled twice,
//! and only then memory changes and replies go to the gate.

use std::collections::BTreeMap;

use bytes::Bytes;
use steadfast_core::codec::{put_bytes, put_varint};
use steadfast_core::id::Partition;
use steadfast_core::limits;
use steadfast_storage::{Error as StorageError, Kind as StorageKind, Writes};

use crate::address::{Address, Envelope, Kind as ServiceKind};
use crate::command::{Caller, Command, Errand, Origin, Waiting};
use crate::draft::{CallId, Draft};
use crate::error::{Error, Kind};
use crate::gate::Release;
use crate::inbox;
use crate::message::Payload;
use crate::metrics::count;
use crate::outbox;
use crate::refusal::{Halt, Refusal};
use crate::sequencer::{Job, Sequencer};
use crate::service::Answer;
use crate::tables::{OUTBOX, POISON, RECEIVED, SENT, TIMERS};
use crate::turn::{Outside, Turn};
use crate::warm::Row;
use crate::written::Written;

/// How a run of a command ended.
enum Ran {
    Done,
    Missing(Command, Vec<Row>),
    Away(Command),
    Stalled(Command),
}

/// The outcome of a command before it is staged.
struct Decision {
    writes: Writes,
    rows: Written,
    draft: Draft,
    given: Option<Given>,
}

/// A reply, its call, and the service that gave it.
struct Given {
    answer: Answer<Payload>,
    call: CallId,
    service: ServiceKind,
}

/// A message with its destination and number.
type Numbered = (Partition, u64, Bytes);

impl Sequencer {
    /// Runs a command until it ends or waits; answers whether it has left the queue of
    /// its instance.
    pub(crate) fn settle(&mut self, lane: Option<&Address>, command: Command) -> bool {
        if self.is_stale {
            // Memory no longer matches the rows.
            let partition = self.ledger.partition();
            let error = StorageError::new(StorageKind::TakenBack { partition });
            self.turn_away(command, &error);
            return true;
        }
        if !self.stalled.is_empty() && !command.is_refusable() {
            self.stall(command);
            return true;
        }
        match self.run(command) {
            Ran::Done => true,
            Ran::Missing(command, rows) => {
                self.await_rows(lane, command, rows);
                false
            }
            Ran::Away(command) => {
                if let Some(lane) = lane.or(command.to()).cloned() {
                    self.lanes.wait(lane, command, Vec::new());
                }
                false
            }
            Ran::Stalled(command) => {
                self.stall(command);
                true
            }
        }
    }

    /// Lets a command wait for room in the log. Other commands may change its rows in
    /// the meantime, so its result from outside is computed again.
    fn stall(&mut self, mut command: Command) {
        command.errand = Errand::None;
        self.stalled.push_back(command);
    }

    /// Removes the rows of messages that have arrived, in a commit of their own.
    pub(crate) fn sweep(&mut self) {
        if let Err(error) = self.stage(Writes::new()) {
            // A later commit removes them.
            tracing::debug!(
                event = "partition.outbox_kept",
                %error,
                "rows of arrived messages were not removed; a later commit removes them",
            );
        }
    }

    fn await_rows(&mut self, lane: Option<&Address>, command: Command, rows: Vec<Row>) {
        count(&self.metrics.missed);
        let Some(lane) = lane.or(command.to()).cloned() else {
            // Only services miss rows, and none was called.
            return;
        };
        for row in &rows {
            self.warm.want(row);
        }
        self.lanes.wait(lane.clone(), command, rows.clone());
        self.jobs.push(Job::Rows { lane, rows });
    }

    fn run(&mut self, mut command: Command) -> Ran {
        if let Origin::Timer { key } = &command.origin
            && !self.timers.is_firing(key)
        {
            // The timer was cancelled while it waited.
            return Ran::Done;
        }
        let mut missing = Vec::new();
        match self.decide(&mut command, &mut missing) {
            Ok(decision) => self.conclude(command, decision),
            Err(Halt::Missing) => Ran::Missing(command, missing),
            Err(Halt::Away) => {
                command.errand = Errand::Away(self.next_call);
                Ran::Away(command)
            }
            Err(Halt::Refused(refusal)) => self.decline(command, &refusal),
        }
    }

    /// Calls the services. Nothing has changed afterwards.
    fn decide(&mut self, command: &mut Command, missing: &mut Vec<Row>) -> Result<Decision, Halt> {
        self.next_call += 1;
        let call = CallId(self.next_call);
        let writes = match command.writes.as_deref() {
            Some(writes) => writes.clone(),
            None => Writes::with_room(self.room),
        };
        let (ledger, space, warm) = (&self.ledger, &self.space, &self.warm);
        let nobody = Address::nobody();
        let outside = Outside {
            performer: &*self.performer,
            posts: &self.posts,
            // A command that shares its commit with others cannot be suspended.
            errand: command.more.is_empty().then_some(&command.errand),
            number: self.next_call,
        };
        let mut turn = Turn::new(ledger, space, warm, self.now, &nobody, writes, outside);
        if let Origin::Timer { key } = &command.origin {
            // Before the timers that the service schedules: one may have the same key.
            turn.writes.delete(TIMERS, key);
        }
        turn.call = matches!(command.origin, Origin::Caller(_)).then_some(call);
        let mut given = None;
        for step in command.first.iter_mut().chain(&mut command.more) {
            turn.to = &step.to;
            let service = step.to.kind;
            let found = self
                .services
                .get(service)
                .ok_or_else(|| no_service(service))?;
            match found.handle(&mut turn, &step.to, &mut step.body) {
                Ok(answer) => {
                    given = Some(Given {
                        answer,
                        call,
                        service,
                    });
                }
                Err(halt) => {
                    *missing = std::mem::take(&mut turn.missing);
                    return Err(halt);
                }
            }
        }
        Ok(Decision {
            writes: turn.writes,
            rows: turn.own,
            draft: turn.draft,
            given,
        })
    }

    /// Stages what the services decided, and updates memory.
    fn conclude(&mut self, command: Command, decision: Decision) -> Ran {
        let Decision {
            mut writes,
            rows,
            draft,
            given,
        } = decision;
        let sends = self.number(&draft.sends, &mut writes);
        self.write_origin(&command.origin, &mut writes);
        if let Err(error) = self.stage(writes) {
            return self.fail(command, &error);
        }
        count(&self.metrics.commands);
        if !self.warm.is_empty() {
            for ((table, key), value) in rows.rows() {
                self.warm.written(*table, key, value.as_ref());
            }
        }
        self.finish(command.origin, given);
        self.remember(draft, sends);
        Ran::Done
    }

    /// Gives messages their numbers and their rows.
    fn number(&self, sends: &[(Partition, Envelope)], writes: &mut Writes) -> Vec<Numbered> {
        let mut numbered: Vec<Numbered> = Vec::with_capacity(sends.len());
        let mut last: BTreeMap<Partition, u64> = BTreeMap::new();
        for (to, envelope) in sends {
            let number = last.entry(*to).or_insert_with(|| self.outbox.last(*to));
            *number += 1;
            let message = envelope.encode();
            writes.put(OUTBOX, &outbox::row_key(*to, *number), &message);
            numbered.push((*to, *number, message));
        }
        for (to, number) in last {
            writes.put(SENT, &to.0.to_be_bytes(), &number.to_be_bytes());
        }
        numbered
    }

    /// Writes the rows that keep a command from being handled twice.
    fn write_origin(&self, origin: &Origin, writes: &mut Writes) {
        match origin {
            Origin::Link { link, number } => {
                writes.put(RECEIVED, &inbox::row_key(*link), &number.to_be_bytes());
            }
            Origin::Own { number } => {
                let me = self.ledger.partition();
                writes.delete(OUTBOX, &outbox::row_key(me, *number));
            }
            // The row of a timer was deleted first; callers need none.
            Origin::Timer { .. } | Origin::Caller(_) | Origin::Transaction(_) | Origin::Posted => {}
        }
    }

    /// Stages a transaction, with the deletion of rows of arrived messages.
    fn stage(&mut self, mut writes: Writes) -> Result<(), StorageError> {
        let arrived = self.outbox.arrived_rows();
        let count = arrived.len();
        for key in arrived {
            writes.delete(OUTBOX, key);
        }
        if writes.is_empty() {
            // It may have read staged rows, but it changes nothing. The rows were
            // valid: no turn succeeds on a ledger that has failed.
            return self.ledger.check();
        }
        // Most transactions are like those before; the estimate decays after a much
        // longer one.
        let room = writes.bytes().max(self.room - self.room.div_ceil(16));
        self.room = room.min(limits::EXPECTED_TRANSACTION_BYTES);
        let staged = self.ledger.stage_after(self.rollbacks, writes)?;
        self.staged = staged.lsn;
        self.outbox.forget_rows(count);
        Ok(())
    }

    /// The transaction could not be staged; nothing has changed.
    fn fail(&mut self, command: Command, error: &StorageError) -> Ran {
        let is_too_much = matches!(
            error.kind(),
            StorageKind::TooLarge { .. } | StorageKind::TrimPastEnd { .. }
        );
        let is_throttled = matches!(error.kind(), StorageKind::Throttled { .. });
        if is_throttled && !command.is_refusable() {
            return Ran::Stalled(command);
        }
        if is_too_much && !command.is_refusable() {
            let refusal = Refusal::new(error.code(), error.to_string());
            return self.decline(command, &refusal);
        }
        self.turn_away(command, error);
        Ran::Done
    }

    /// Answers a caller with the error. Other origins repeat their command by
    /// themselves once the partition has been loaded again.
    fn turn_away(&mut self, command: Command, error: &StorageError) {
        if matches!(error.kind(), StorageKind::TakenBack { .. }) {
            self.is_stale = true;
        }
        refuse(command.origin, &error.clone().into());
    }

    /// A service has refused a command. A caller gets the refusal; a message or timer
    /// becomes a dead letter, since it has no caller.
    fn decline(&mut self, command: Command, refusal: &Refusal) -> Ran {
        if let Err(error) = self.ledger.check() {
            // The service may not have seen rows that exist.
            self.turn_away(command, &error);
            return Ran::Done;
        }
        if command.is_refusable() {
            count(&self.metrics.refused);
            refuse(command.origin, &Error::new(Kind::Refused(refusal.clone())));
            return Ran::Done;
        }
        let mut writes = Writes::new();
        self.write_poison(&command, refusal, &mut writes);
        if let Origin::Timer { key } = &command.origin {
            writes.delete(TIMERS, key);
        }
        self.write_origin(&command.origin, &mut writes);
        match self.stage(writes) {
            Ok(()) => {
                let to = command.to().map(tracing::field::display);
                tracing::warn!(
                    event = "partition.message_refused",
                    to,
                    %refusal,
                    "a service refused a message; it was stored as a dead letter",
                );
                count(&self.metrics.poisoned);
                self.finish(command.origin, None);
                Ran::Done
            }
            Err(error) if matches!(error.kind(), StorageKind::Throttled { .. }) => {
                Ran::Stalled(command)
            }
            Err(error) => {
                self.turn_away(command, &error);
                Ran::Done
            }
        }
    }

    /// Stores a refused message as a dead letter, with the reason.
    fn write_poison(&self, command: &Command, refusal: &Refusal, writes: &mut Writes) {
        let mut key = (self.now.0.max(0) as u64).to_be_bytes().to_vec();
        key.extend_from_slice(&self.ledger.epoch().0.to_be_bytes());
        key.extend_from_slice(&self.next_call.to_be_bytes());
        let mut row = vec![1];
        put_bytes(&mut row, refusal.code.0.as_bytes());
        put_bytes(&mut row, refusal.message.as_bytes());
        put_varint(&mut row, command.steps().count() as u64);
        for step in command.steps() {
            let envelope = Envelope::new(step.to.clone(), step.body.bytes());
            put_bytes(&mut row, &envelope.encode());
        }
        writes.put(POISON, &key, &row);
    }

    /// Answers the origin of the command, as soon as the commit is durable.
    fn finish(&mut self, origin: Origin, given: Option<Given>) {
        match origin {
            Origin::Caller(caller) => {
                if let Some(given) = given {
                    self.answer(caller, given);
                }
            }
            Origin::Transaction(reply) => {
                let release = Release::Committed(reply, self.staged);
                self.gate.hold(self.staged, release);
            }
            Origin::Link { link, number } => {
                count(&self.metrics.received);
                self.inbox.handled(link, number, self.staged);
                self.acknowledge(link);
                self.open_links.push_back(link);
            }
            Origin::Timer { key } => {
                count(&self.metrics.timers);
                self.timers.fired(&key);
            }
            Origin::Own { .. } | Origin::Posted => {}
        }
    }

    fn answer(&mut self, caller: Caller, given: Given) {
        let service = given.service;
        match given.answer {
            Answer::Now(reply) => self.reply(Waiting { caller, service }, reply),
            Answer::Later => self.answer_later(given.call, Waiting { caller, service }),
        }
    }

    fn answer_later(&mut self, call: CallId, waiting: Waiting) {
        if self.late.len() >= limits::LATE_ANSWERS {
            let is_there = |waiting: &Waiting| !waiting.caller.reply.is_closed();
            self.late.retain(|_, waiting| is_there(waiting));
        }
        if self.late.len() >= limits::LATE_ANSWERS {
            let partition = self.ledger.partition();
            let busy = Error::new(Kind::Busy { partition });
            let _ = waiting.caller.reply.send(Err(busy));
            return;
        }
        self.late.insert(call, waiting);
    }

    fn reply(&mut self, to: Waiting, reply: Payload) {
        let reply = match to.caller.is_remote {
            false => Ok(reply),
            true => match self
                .services
                .get(to.service)
                .map(|found| found.encode(reply))
            {
                Some(Ok(bytes)) => Ok(Payload::Bytes(bytes)),
                Some(Err(_)) | None => Err(Error::new(Kind::Malformed { what: "the reply" })),
            },
        };
        let release = Release::Reply(to.caller.reply, reply);
        self.gate.hold(self.staged, release);
    }

    /// Adds the turn's timers, messages and effects to memory.
    fn remember(&mut self, draft: Draft, sends: Vec<Numbered>) {
        for key in &draft.cancels {
            self.timers.cancel(key);
        }
        for timer in draft.timers {
            self.timers.schedule(timer);
        }
        for (call, reply) in draft.answers {
            if let Some(waiting) = self.late.remove(&call) {
                self.reply(waiting, reply);
            }
        }
        for effect in draft.effects {
            self.gate.hold(self.staged, Release::Perform(effect));
        }
        for (to, number, message) in sends {
            count(&self.metrics.sent);
            self.outbox.staged(to, number, message);
            self.gate.hold(self.staged, Release::Send(to, number));
        }
    }
}

fn no_service(kind: ServiceKind) -> Refusal {
    let error = Error::new(Kind::NoService { kind });
    Refusal::new(error.code(), error.kind().to_string())
}

pub(crate) fn refuse(origin: Origin, error: &Error) {
    // The caller may have stopped waiting.
    match origin {
        Origin::Caller(caller) => drop(caller.reply.send(Err(error.clone()))),
        Origin::Transaction(reply) => drop(reply.send(Err(error.clone()))),
        Origin::Link { .. } | Origin::Own { .. } | Origin::Timer { .. } | Origin::Posted => {}
    }
}

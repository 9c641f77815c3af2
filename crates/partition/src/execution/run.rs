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
use steadfast_storage::{Error as StorageError, ErrorKind as StorageKind, Writes};

use crate::error::{Error, ErrorKind};
use crate::execution::gate::GatedOutput;
use crate::execution::pending_effects::{CallId, PendingEffects};
use crate::execution::pinned_rows::RowAddress;
use crate::execution::sequencer::{OwnerJob, Sequencer};
use crate::execution::service_error::{ServiceError, TurnError};
use crate::execution::tables::{OUTBOX, POISON, RECEIVED, SENT, TIMERS};
use crate::execution::turn::{Turn, TurnEnvironment, TurnOutcome};
use crate::execution::write_buffer::WriteBuffer;
use crate::ingress::address::{Address, Envelope, ServiceKind};
use crate::ingress::command::{Command, CommandOrigin, DeferredCall, ReplySender, Suspension};
use crate::ingress::message::MessagePayload;
use crate::links::inbox;
use crate::links::outbox;
use crate::metrics::count;

/// How a run of a command ended.
enum RunOutcome {
    Done,
    Missing(Command, Vec<RowAddress>),
    Suspended(Command),
    Stalled(Command),
}

/// The outcome of a command before it is staged.
struct TurnDecision {
    writes: Writes,
    rows: WriteBuffer,
    draft: PendingEffects,
    given: Option<TurnReply>,
}

/// A reply, its call, and the service that gave it.
struct TurnReply {
    answer: TurnOutcome<MessagePayload>,
    call: CallId,
    service: ServiceKind,
}

/// A message with its destination and number.
type NumberedMessage = (Partition, u64, Bytes);

impl Sequencer {
    /// Runs a command until it ends or waits; answers whether it has left the queue of
    /// its instance.
    pub(crate) fn settle(&mut self, lane: Option<&Address>, command: Command) -> bool {
        if self.is_stale {
            // Memory no longer matches the rows.
            let partition = self.ledger.partition();
            let error = StorageError::new(StorageKind::RolledBack { partition });
            self.turn_away(command, &error);
            return true;
        }
        if !self.stalled.is_empty() && command.waits_for_room() {
            self.stall(command);
            return true;
        }
        match self.run(command) {
            RunOutcome::Done => true,
            RunOutcome::Missing(command, rows) => {
                self.await_rows(lane, command, rows);
                false
            }
            RunOutcome::Suspended(command) => {
                if let Some(lane) = lane.or(command.to()).cloned() {
                    self.blocked.wait(lane, command, Vec::new());
                }
                false
            }
            RunOutcome::Stalled(command) => {
                self.stall(command);
                true
            }
        }
    }

    /// Lets a command wait for room in the log. Other commands may change its rows in
    /// the meantime, so its result from outside is computed again.
    fn stall(&mut self, mut command: Command) {
        command.suspension = Suspension::None;
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

    fn await_rows(&mut self, lane: Option<&Address>, command: Command, rows: Vec<RowAddress>) {
        count(&self.metrics.missed);
        let Some(lane) = lane.or(command.to()).cloned() else {
            // Only services miss rows, and none was called.
            return;
        };
        for row in &rows {
            self.pinned.want(row);
        }
        self.blocked.wait(lane.clone(), command, rows.clone());
        self.jobs.push(OwnerJob::Rows { lane, rows });
    }

    fn run(&mut self, mut command: Command) -> RunOutcome {
        if let CommandOrigin::Timer { key } = &command.origin
            && !self.timers.is_firing(key)
        {
            // The timer was cancelled while it waited.
            return RunOutcome::Done;
        }
        let mut missing = Vec::new();
        match self.decide(&mut command, &mut missing) {
            Ok(decision) => self.conclude(command, decision),
            Err(TurnError::Missing) => RunOutcome::Missing(command, missing),
            Err(TurnError::Suspended) => {
                command.suspension = Suspension::Suspended(self.next_call);
                RunOutcome::Suspended(command)
            }
            Err(TurnError::Refused(refusal)) => self.decline(command, &refusal),
        }
    }

    /// Calls the services; changes nothing yet.
    fn decide(
        &mut self,
        command: &mut Command,
        missing: &mut Vec<RowAddress>,
    ) -> Result<TurnDecision, TurnError> {
        self.next_call += 1;
        let call = CallId(self.next_call);
        let (writes, messages) = match command.transaction.as_deref() {
            Some(own) => (own.writes.clone(), own.messages.as_slice()),
            None => (Writes::with_capacity(self.room), [].as_slice()),
        };
        let (ledger, space, warm) = (&self.ledger, &self.space, &self.pinned);
        let unassigned = Address::unassigned();
        let is_transaction = matches!(command.origin, CommandOrigin::Transaction(_));
        let outside = TurnEnvironment {
            services: &self.services,
            performer: &*self.performer,
            control: &self.control,
            // A command that shares its commit with others cannot be suspended.
            suspension: command.more.is_empty().then_some(&command.suspension),
            number: self.next_call,
        };
        let mut turn = Turn::new(ledger, space, warm, self.now, &unassigned, writes, outside);
        if let CommandOrigin::Timer { key } = &command.origin {
            // Before the timers that the service schedules: one may have the same key.
            turn.writes.delete(TIMERS, key);
        }
        turn.call = matches!(command.origin, CommandOrigin::Caller(_)).then_some(call);
        let mut given = None;
        for step in command.first.iter_mut().chain(&mut command.more) {
            turn.to = &step.to;
            let service = step.to.kind;
            let found = self
                .services
                .get(service)
                .ok_or_else(|| no_service(service))?;
            if is_transaction {
                check_home(found.partition(space, &step.to), ledger.partition())?;
            }
            match found.handle(&mut turn, &step.to, &mut step.body) {
                Ok(answer) => {
                    given = Some(TurnReply {
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
        for message in messages {
            if let Err(halt) = self.dispatch(&mut turn, message) {
                *missing = std::mem::take(&mut turn.missing);
                return Err(halt);
            }
        }
        Ok(TurnDecision {
            writes: turn.writes,
            rows: turn.own,
            draft: turn.draft,
            given,
        })
    }

    /// Sends a message of a user's transaction. A service that is in every partition
    /// handles it in this commit: it has no row that would have to be deleted again.
    fn dispatch<'a>(&self, turn: &mut Turn<'a>, message: &'a Envelope) -> Result<(), TurnError> {
        let kind = message.to.kind;
        let service = self.services.get(kind).ok_or_else(|| no_service(kind))?;
        match service.partition(&self.space, &message.to) {
            Some(partition) => turn.send_to(partition, message.clone()),
            None => {
                turn.to = &message.to;
                let mut body = MessagePayload::Bytes(message.body.clone());
                service.handle(turn, &message.to, &mut body)?;
            }
        }
        Ok(())
    }

    /// Stages what the services decided, and updates memory.
    fn conclude(&mut self, command: Command, decision: TurnDecision) -> RunOutcome {
        let TurnDecision {
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
        if !self.pinned.is_empty() {
            for ((table, key), value) in rows.rows() {
                self.pinned.written(*table, key, value.as_ref());
            }
        }
        self.finish(command.origin, given);
        self.remember(draft, sends);
        RunOutcome::Done
    }

    /// Gives messages their numbers and their rows.
    fn number(&self, sends: &[(Partition, Envelope)], writes: &mut Writes) -> Vec<NumberedMessage> {
        let mut numbered: Vec<NumberedMessage> = Vec::with_capacity(sends.len());
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
    fn write_origin(&self, origin: &CommandOrigin, writes: &mut Writes) {
        match origin {
            CommandOrigin::Link { link, number } => {
                writes.put(RECEIVED, &inbox::row_key(*link), &number.to_be_bytes());
            }
            CommandOrigin::Own { number } => {
                let me = self.ledger.partition();
                writes.delete(OUTBOX, &outbox::row_key(me, *number));
            }
            // The row of a timer was deleted first; callers need none.
            CommandOrigin::Timer { .. }
            | CommandOrigin::Caller(_)
            | CommandOrigin::Transaction(_)
            | CommandOrigin::Posted => {}
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

    /// Handles a transaction that could not be staged; nothing has changed.
    fn fail(&mut self, command: Command, error: &StorageError) -> RunOutcome {
        let is_too_much = matches!(
            error.kind(),
            StorageKind::TooLarge { .. } | StorageKind::TrimPastEnd { .. }
        );
        let is_throttled = matches!(error.kind(), StorageKind::Throttled { .. });
        if is_throttled && command.waits_for_room() {
            return RunOutcome::Stalled(command);
        }
        if is_too_much && !command.is_refusable() {
            let refusal = ServiceError::new(error.code(), error.to_string());
            return self.decline(command, &refusal);
        }
        self.turn_away(command, error);
        RunOutcome::Done
    }

    /// Answers a caller with the error. Other origins repeat their command by
    /// themselves once the partition has been loaded again.
    fn turn_away(&mut self, command: Command, error: &StorageError) {
        if matches!(error.kind(), StorageKind::RolledBack { .. }) {
            self.is_stale = true;
        }
        command.origin.refuse(&error.clone().into());
    }

    /// A service has refused a command. A caller gets the refusal; a message or timer
    /// becomes a dead letter, since it has no caller.
    fn decline(&mut self, command: Command, refusal: &ServiceError) -> RunOutcome {
        if let Err(error) = self.ledger.check() {
            // The service may not have seen rows that exist.
            self.turn_away(command, &error);
            return RunOutcome::Done;
        }
        if command.is_refusable() {
            count(&self.metrics.refused);
            command
                .origin
                .refuse(&Error::new(ErrorKind::Refused(refusal.clone())));
            return RunOutcome::Done;
        }
        let mut writes = Writes::new();
        self.write_poison(&command, refusal, &mut writes);
        if let CommandOrigin::Timer { key } = &command.origin {
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
                RunOutcome::Done
            }
            Err(error) if matches!(error.kind(), StorageKind::Throttled { .. }) => {
                RunOutcome::Stalled(command)
            }
            Err(error) => {
                self.turn_away(command, &error);
                RunOutcome::Done
            }
        }
    }

    /// Stores a refused message as a dead letter, with the reason.
    fn write_poison(&self, command: &Command, refusal: &ServiceError, writes: &mut Writes) {
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
    fn finish(&mut self, origin: CommandOrigin, given: Option<TurnReply>) {
        match origin {
            CommandOrigin::Caller(caller) => {
                if let Some(given) = given {
                    self.answer(caller, given);
                }
            }
            CommandOrigin::Transaction(reply) => {
                let release = GatedOutput::Committed(reply, self.staged);
                self.gate.hold(self.staged, release);
            }
            CommandOrigin::Link { link, number } => {
                count(&self.metrics.received);
                self.inbox.handled(link, number, self.staged);
                self.acknowledge(link);
                self.open_links.push_back(link);
            }
            CommandOrigin::Timer { key } => {
                count(&self.metrics.timers);
                if let Some(fired) = &mut self.fired {
                    fired.push(&key);
                }
                self.timers.fired(&key);
            }
            CommandOrigin::Own { .. } | CommandOrigin::Posted => {}
        }
    }

    fn answer(&mut self, caller: ReplySender, given: TurnReply) {
        let service = given.service;
        match given.answer {
            TurnOutcome::Now(reply) => self.reply(DeferredCall { caller, service }, reply),
            TurnOutcome::Later => self.answer_later(given.call, DeferredCall { caller, service }),
        }
    }

    fn answer_later(&mut self, call: CallId, waiting: DeferredCall) {
        if self.late.len() >= limits::LATE_ANSWERS {
            let is_there = |waiting: &DeferredCall| !waiting.caller.reply.is_closed();
            self.late.retain(|_, waiting| is_there(waiting));
        }
        if self.late.len() >= limits::LATE_ANSWERS {
            let partition = self.ledger.partition();
            let busy = Error::new(ErrorKind::Busy { partition });
            let _ = waiting.caller.reply.send(Err(busy));
            return;
        }
        self.late.insert(call, waiting);
    }

    fn reply(&mut self, to: DeferredCall, reply: MessagePayload) {
        let reply = if to.caller.is_remote {
            match self
                .services
                .get(to.service)
                .map(|found| found.encode(reply))
            {
                Some(Ok(bytes)) => Ok(MessagePayload::Bytes(bytes)),
                Some(Err(_)) | None => Err(Error::new(ErrorKind::Malformed { what: "the reply" })),
            }
        } else {
            Ok(reply)
        };
        let release = GatedOutput::Reply(to.caller.reply, reply);
        self.gate.hold(self.staged, release);
    }

    /// Adds the turn's timers, messages and effects to memory.
    fn remember(&mut self, draft: PendingEffects, sends: Vec<NumberedMessage>) {
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
            self.gate.hold(self.staged, GatedOutput::Perform(effect));
        }
        for (to, number, message) in sends {
            count(&self.metrics.sent);
            self.outbox.staged(to, number, message);
            self.gate.hold(self.staged, GatedOutput::Send(to, number));
        }
    }
}

/// Refuses a command of a transaction to an instance of another partition: its rows would
/// be written where nothing ever reads them.
fn check_home(home: Option<Partition>, here: Partition) -> Result<(), ServiceError> {
    match home {
        Some(home) if home != here => Err(refusal(ErrorKind::ForeignCommand { home, here })),
        _ => Ok(()),
    }
}

fn no_service(kind: ServiceKind) -> ServiceError {
    refusal(ErrorKind::NoService { kind })
}

fn refusal(kind: ErrorKind) -> ServiceError {
    let error = Error::new(kind);
    ServiceError::new(error.code(), error.kind().to_string())
}

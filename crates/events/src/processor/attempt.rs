//! Calls the handler, and retries failed events.
//!
//! With exactly-once an attempt is a transaction: the handler's writes and the new
//! checkpoint are one commit. Otherwise the checkpoint is written when it is due. A
//! transaction aborted by a deadlock is retried, and does not count as a failure of
//! the handler.

use std::sync::Arc;

use steadfast_collections::{Error as StateError, ErrorKind as StateKind, Replica};
use steadfast_core::error::Code;
use steadfast_core::limits;
use steadfast_partition::{Envelope, ErrorKind as PartitionKind, NodeTransport as _};

use crate::checkpoint::CheckpointCondition;
use crate::dead_letter::DeadLetter;
use crate::error::{Error, ErrorKind, Result};
use crate::groups::advance;
use crate::processor::handler::{Context, Handler, HandlerError, ReceivedEvent, caught};
use crate::processor::options::Guarantee;
use crate::processor::pump::{NextStep, PartitionPump};
use crate::processor::shared::parked;

/// The outcome of an attempt.
enum AttemptOutcome {
    Done,
    /// The handler failed.
    Failed(String),
    /// The store failed; not the handler's fault.
    Unavailable(Error),
    /// The checkpoint is not at the expected position.
    Moved,
}

impl<H: Handler> PartitionPump<H> {
    /// Handles events until each has succeeded or is a dead letter.
    pub(crate) async fn handle(&mut self, events: &[ReceivedEvent]) -> Option<NextStep> {
        let (mut index, mut attempts, mut is_single) = (0, 0, false);
        while let Some(first) = events.get(index) {
            let end = if is_single { index + 1 } else { events.len() };
            let some = &events[index..end];
            match self.attempt(some).await {
                AttemptOutcome::Done => (index, attempts) = (end, 0),
                AttemptOutcome::Moved => return Some(NextStep::FromCheckpoint),
                AttemptOutcome::Unavailable(error) => {
                    self.report("commit", &error, attempts).await;
                    if let Some(why) = self.pause(1).await {
                        return Some(NextStep::Over(why));
                    }
                }
                AttemptOutcome::Failed(reason) if some.len() > 1 => {
                    // Retry one by one to find the failing event.
                    is_single = true;
                    self.tell("handle a batch", reason, 1).await;
                }
                AttemptOutcome::Failed(reason) => {
                    attempts += 1;
                    self.tell("handle an event", reason.clone(), attempts).await;
                    let is_poison = self
                        .work
                        .options
                        .attempts
                        .is_some_and(|most| attempts >= most);
                    if is_poison {
                        if let Some(next) = self.park(first, attempts, &reason).await {
                            return Some(next);
                        }
                        (index, attempts) = (end, 0);
                    } else if let Some(why) = self.pause(attempts).await {
                        return Some(NextStep::Over(why));
                    }
                }
            }
            if let Some(why) = *self.ended.borrow() {
                return Some(NextStep::Over(why));
            }
        }
        None
    }

    /// Calls the handler with some events.
    async fn attempt(&mut self, events: &[ReceivedEvent]) -> AttemptOutcome {
        let Some(last) = events.last().map(|event| (event.sequence, event.offset)) else {
            return AttemptOutcome::Done;
        };
        let commands = |pump: &Self| {
            let from = pump.progress.checkpoint;
            vec![pump.work.advance(pump.partition, from, last)]
        };
        let guarantee = self.work.options.guarantee.clone();
        match self.call(&guarantee, events, commands).await {
            AttemptOutcome::Done => {}
            other => return other,
        }
        self.next = Some(last.0 + 1);
        match guarantee {
            Guarantee::ExactlyOnce(_) => self.progress.written(last.0),
            Guarantee::AtLeastOnce => {
                let now = self.monotonic();
                let count = events.len() as u64;
                self.progress.handled(last, count, now);
                if let Some(NextStep::FromCheckpoint) = self.write_due().await {
                    return AttemptOutcome::Moved;
                }
            }
        }
        AttemptOutcome::Done
    }

    /// Calls the handler, and with exactly-once commits its effects together with the
    /// commands.
    async fn call(
        &mut self,
        guarantee: &Guarantee,
        events: &[ReceivedEvent],
        commands: impl FnOnce(&Self) -> Vec<Envelope>,
    ) -> AttemptOutcome {
        let place = self.work.place(self.partition);
        let replica = match guarantee {
            Guarantee::AtLeastOnce => None,
            Guarantee::ExactlyOnce(replicas) => match replicas.of(place).await {
                Ok(replica) => Some(replica),
                Err(error) => return AttemptOutcome::Unavailable(error.into()),
            },
        };
        let scope = Arc::clone(&self.scope);
        let (mut first, mut deadlocks) = (None, 0);
        let (state, wanted) = loop {
            let begin = |replica| match first {
                Some(first) => Replica::begin_again(replica, first),
                None => Replica::begin(replica),
            };
            let mut context = Context {
                partition: self.partition,
                scope: &scope,
                state: replica.as_ref().map(|replica| (replica, begin(replica))),
                wanted: None,
            };
            let handled = caught(self.work.handler.handle(events, &mut context)).await;
            let Err(failure) = handled else {
                break (context.state, context.wanted);
            };
            let Some((_, tx)) = context.state.filter(|_| is_deadlock(&failure)) else {
                return AttemptOutcome::Failed(failure.to_string());
            };
            if self.ended.borrow().is_some() || deadlocks >= limits::TRANSACT_DEADLOCKS {
                return AttemptOutcome::Unavailable(Error::new(
                    ErrorKind::Unavailable,
                    failure.to_string(),
                ));
            }
            first.get_or_insert(tx.id());
            drop(tx);
            Replica::yield_to_older(deadlocks).await;
            deadlocks += 1;
        };
        match (guarantee, state) {
            (Guarantee::ExactlyOnce(replicas), Some((_, tx))) => {
                let commands = commands(self);
                let error = match replicas.commit(place, tx, commands).await {
                    Ok(_) => return AttemptOutcome::Done,
                    Err(error) => error,
                };
                if is_permanent(&error) {
                    return AttemptOutcome::Failed(error.to_string());
                }
                let error = Error::from(error);
                if error.kind() == ErrorKind::CheckpointMoved {
                    AttemptOutcome::Moved
                } else {
                    AttemptOutcome::Unavailable(error)
                }
            }
            _ => match wanted {
                Some(wanted) => self.checkpoint_by_hand(wanted).await,
                None => AttemptOutcome::Done,
            },
        }
    }

    async fn checkpoint_by_hand(&mut self, wanted: (i64, i64)) -> AttemptOutcome {
        match self.checkpoint(wanted).await {
            Ok(()) => AttemptOutcome::Done,
            Err(error) if error.kind() == ErrorKind::CheckpointMoved => AttemptOutcome::Moved,
            Err(error) => {
                // The events are handled; a later checkpoint covers them.
                self.report("write a checkpoint", &error, 0).await;
                AttemptOutcome::Done
            }
        }
    }

    /// Writes the checkpoint if it is due.
    pub(crate) async fn write_due(&mut self) -> Option<NextStep> {
        let due = self.progress.due(self.monotonic())?;
        match self.checkpoint(due).await {
            Ok(()) => None,
            Err(error) if error.kind() == ErrorKind::CheckpointMoved => {
                Some(NextStep::FromCheckpoint)
            }
            Err(error) => {
                self.report("write a checkpoint", &error, 0).await;
                self.pause(1).await.map(NextStep::Over)
            }
        }
    }

    pub(crate) async fn checkpoint(&mut self, to: (i64, i64)) -> Result<()> {
        let work = &self.work;
        let condition = CheckpointCondition::At(self.progress.checkpoint);
        // By the cached id, not by name: another event hub may have the name by now.
        let command = advance(&work.known, &work.group, to, condition);
        work.hubs
            .advance_of(&work.known, self.partition, command)
            .await?;
        self.progress.written(to.0);
        Ok(())
    }

    /// Stores an event as a dead letter, and with exactly-once moves the checkpoint in
    /// the same commit.
    async fn park(
        &mut self,
        event: &ReceivedEvent,
        attempts: u32,
        reason: &str,
    ) -> Option<NextStep> {
        let place = (event.sequence, event.offset);
        let is_once = matches!(self.work.options.guarantee, Guarantee::ExactlyOnce(_));
        loop {
            let event = parked(event, attempts, reason);
            let mut commands = vec![self.work.park(self.partition, event)];
            if is_once {
                let from = self.progress.checkpoint;
                commands.push(self.work.advance(self.partition, from, place));
            }
            let error = match self.commit(commands).await {
                Ok(()) => break,
                Err(error) => error,
            };
            if error.kind() == ErrorKind::CheckpointMoved {
                return Some(NextStep::FromCheckpoint);
            }
            self.report("store a dead letter", &error, attempts).await;
            if let Some(why) = self.pause(1).await {
                return Some(NextStep::Over(why));
            }
        }
        self.next = Some(place.0 + 1);
        if is_once {
            self.progress.written(place.0)
        } else {
            let now = self.monotonic();
            self.progress.handled(place, 1, now);
        }
        None
    }

    async fn commit(&self, commands: Vec<Envelope>) -> Result<()> {
        let hubs = &self.work.hubs;
        let place = hubs.hosting_partition(&self.work.known, self.partition);
        Ok(hubs.inner.router.commit(place, commands).await?)
    }

    /// Replays dead letters, one by one; those that fail again stay.
    pub(crate) async fn handle_parked(&mut self) {
        let work = Arc::clone(&self.work);
        let (hub, group) = (&work.known.hub.name, &work.group);
        let found = work
            .hubs
            .dead_letters(hub, group, self.partition, 0, limits::SCAN_ROWS);
        let found = match found.await {
            Ok(found) => found,
            Err(error) => return self.report("read dead letters", &error, 0).await,
        };
        for event in found {
            if self.ended.borrow().is_some() {
                return;
            }
            self.retry_parked(event).await;
        }
    }

    async fn retry_parked(&mut self, event: DeadLetter) {
        let work = Arc::clone(&self.work);
        let received = [ReceivedEvent::parked(&event)];
        let done = work.unpark(self.partition, event.sequence);
        let commands = {
            let done = done.clone();
            |_: &Self| vec![done]
        };
        let guarantee = work.options.guarantee.clone();
        let outcome = match self.call(&guarantee, &received, commands).await {
            AttemptOutcome::Done if matches!(guarantee, Guarantee::AtLeastOnce) => {
                match self.commit(vec![done]).await {
                    Err(error) if error.kind() == ErrorKind::CheckpointMoved => Ok(()),
                    committed => committed,
                }
            }
            AttemptOutcome::Done | AttemptOutcome::Moved => Ok(()),
            AttemptOutcome::Unavailable(error) => Err(error),
            AttemptOutcome::Failed(reason) => {
                let attempts = event.attempts + 1;
                self.tell("replay a dead letter", reason.clone(), attempts)
                    .await;
                let again = parked(&received[0], attempts, &reason);
                self.commit(vec![work.park(self.partition, again)]).await
            }
        };
        if let Err(error) = outcome {
            self.report("replay a dead letter", &error, event.attempts)
                .await;
        }
    }
}

/// A command of a transaction is for another partition.
const FOREIGN_COMMAND: Code = Code("STF-4009");

/// Whether the handler's commit would be refused again: its events are the cause.
fn is_permanent(error: &steadfast_partition::Error) -> bool {
    matches!(error.kind(), PartitionKind::MessageRefused(_)) || error.code() == FOREIGN_COMMAND
}

/// Whether a handler failed because a deadlock aborted its transaction.
fn is_deadlock(failure: &HandlerError) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&**failure);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<StateError>() {
            return matches!(error.kind(), StateKind::Deadlock { .. });
        }
        cause = error.source();
    }
    false
}

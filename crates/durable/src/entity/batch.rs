//! Commits results: of batches, and of runs that came first.
//!
//! A worker runs a batch of stored requests. Requests to an idle entity may run before
//! they are stored; their results count if the entity has not changed since.

use steadfast_partition::{Address, Turn, TurnError};

use super::outcome::Outcome;
use super::queue::{RequestRecord, note, seen_key};
use super::record::{FRONT, LoadedEntity, MAIN};
use crate::command::{
    BatchCompletion, Command, CompletedOperation, DirectCommit, ExternalMessage, NewExecution,
    OperationRequest, Reply, WorkRequest,
};
use crate::event::{EntityOperation, EventKind, Parent, Task};
use crate::id;
use crate::moment::Moment;
use crate::outgoing::dispatch;
use crate::rows::{self, SEEN, STATES};
use crate::work::{EntityAction, QueuedOperation};

/// Commits the results of a batch.
pub(crate) fn batch_done(
    turn: &mut Turn<'_>,
    to: &Address,
    done: &BatchCompletion,
) -> Result<Reply, TurnError> {
    let mut entity = LoadedEntity::find(turn, to)?;
    if !entity.row.is_open || entity.row.generation != done.generation {
        return Ok(Reply::Ignored);
    }
    entity.close();
    entity.take(done);
    if done.is_changed {
        entity.set_state(done.state.as_deref());
    }
    for answered in &done.done {
        entity.answer(answered)?;
    }
    for (place, action) in done.actions.iter().enumerate() {
        entity.act(action, place);
    }
    entity.settle()?;
    entity.save();
    Ok(Reply::Done)
}

/// Commits the results if the entity is unchanged since the run; otherwise ignores them,
/// and the requests go into the queue.
pub(crate) fn direct(
    turn: &mut Turn<'_>,
    to: &Address,
    direct: &DirectCommit,
) -> Result<Reply, TurnError> {
    for noted in &direct.noted {
        if turn.get(SEEN, &seen_key(to, &noted.request))?.is_some() {
            return Ok(Reply::Ignored);
        }
    }
    let mut entity = LoadedEntity::find(turn, to)?;
    if !entity.row.is_at_rest() || entity.row.generation != direct.version {
        return Ok(Reply::Ignored);
    }
    if !direct.is_written() {
        return Ok(Reply::Done);
    }
    for noted in &direct.noted {
        note(entity.turn, to, &noted.request, noted.outcome.clone());
    }
    entity.row.generation += 1;
    if direct.is_changed {
        entity.set_state(direct.state.as_deref());
    }
    for (place, action) in direct.actions.iter().enumerate() {
        entity.act(action, place);
    }
    entity.save();
    Ok(Reply::Done)
}

impl LoadedEntity<'_, '_> {
    /// Removes completed requests from their lanes.
    fn take(&mut self, done: &BatchCompletion) {
        let (front, main) = (
            done.front.min(self.row.front_end),
            done.main.min(self.row.main_end),
        );
        for number in self.row.front..front {
            self.remove(FRONT, number);
        }
        for number in self.row.main..main {
            self.remove(MAIN, number);
        }
        self.row.front = self.row.front.max(front);
        self.advance(self.row.main.max(main));
    }

    pub(super) fn set_state(&mut self, state: Option<&str>) {
        self.row.exists = state.is_some();
        self.row.modified = self.turn.time();
        match state {
            Some(state) => self.turn.put(STATES, &self.key, state.to_owned()),
            None => self.turn.delete(STATES, &self.key),
        }
    }

    /// Sends the outcome of a request to its caller.
    pub(super) fn answer(&mut self, answered: &CompletedOperation) -> Result<(), TurnError> {
        let CompletedOperation { request, outcome } = answered;
        let operation = &request.requested.operation;
        if let Some(client) = request.client {
            if client.is_repeatable && client.is_call {
                let key = seen_key(self.to, &operation.request);
                // A row that has expired stays deleted: its timer has already fired.
                if self.turn.get(SEEN, &key)?.is_some() {
                    let outcome = Some(outcome.clone());
                    self.turn
                        .put(SEEN, &key, rows::encode(&RequestRecord { outcome }));
                }
            }
            if client.is_call {
                let wish = WorkRequest::Answer {
                    request: operation.request.clone(),
                    outcome: outcome.clone(),
                };
                self.turn.push(wish.encode());
            }
            return Ok(());
        }
        let Some(parent) = operation.parent.as_ref() else {
            return Ok(());
        };
        if request.requested.is_signal {
            return Ok(());
        }
        let letter = ExternalMessage {
            execution: operation.parent_execution.clone(),
            what: reply(operation, outcome),
        };
        self.send(parent, &Command::Deliver(letter));
        Ok(())
    }

    pub(super) fn act(&mut self, action: &EntityAction, place: usize) {
        let seed = format!("{} {} {place}", self.id(), self.row.generation);
        let seed = format!("{seed} {}", self.turn.time().0);
        match action {
            EntityAction::Signal(operation) => self.signal(operation, &seed),
            EntityAction::Start {
                instance,
                task,
                scheduled,
            } => self.begin(instance, task, *scheduled, &seed),
            EntityAction::Tell(letter) => {
                let sender = self.id();
                dispatch(self.turn, letter, &sender);
            }
        }
    }

    fn signal(&mut self, operation: &EntityOperation, seed: &str) {
        let Ok(target) = id::EntityId::parse(&operation.target) else {
            tracing::warn!(
                event = "durable.signal_dropped",
                entity = self.id(),
                target = operation.target,
                "an entity sent a signal to an invalid entity id; it is dropped",
            );
            return;
        };
        let operation = EntityOperation {
            request: if operation.request.is_empty() {
                id::guid(seed)
            } else {
                operation.request.clone()
            },
            target: target.to_string(),
            ..operation.clone()
        };
        let request = OperationRequest {
            requested: QueuedOperation {
                operation,
                is_signal: true,
            },
            client: None,
        };
        self.send(&target.to_string(), &Command::Request(request));
    }

    fn begin(&mut self, instance: &str, task: &Task, scheduled: Option<Moment>, seed: &str) {
        let execution = id::guid(seed).replace('-', "");
        let instance = if instance.is_empty() {
            execution.clone()
        } else {
            instance.to_owned()
        };
        if let Err(error) = id::check_instance(&instance) {
            tracing::warn!(
                event = "durable.start_dropped",
                entity = self.id(),
                %error,
                "an entity started an orchestration with an invalid id; the start is dropped",
            );
            return;
        }
        let begin = NewExecution {
            execution,
            task: task.clone(),
            parent: Some(Parent {
                task: -1,
                instance: self.id(),
                ..Parent::default()
            }),
            scheduled,
            ..NewExecution::default()
        };
        self.send(&instance, &Command::Start(begin));
    }
}

/// The event for the calling orchestration.
fn reply(operation: &EntityOperation, outcome: &Outcome) -> EventKind {
    let (request, is_legacy) = (operation.request.clone(), operation.legacy.is_some());
    match outcome {
        Outcome::Success(output) => EventKind::EntityCompleted {
            request,
            output: output.clone(),
            is_legacy,
        },
        Outcome::Failure(failure) => EventKind::EntityFailed {
            request,
            failure: failure.clone(),
            is_legacy,
        },
    }
}

/// Logs the failure of a signal: no caller receives it.
pub(crate) fn log_failure(request: &OperationRequest, outcome: &Outcome) {
    if let (true, Outcome::Failure(failure)) = (request.requested.is_signal, outcome) {
        tracing::warn!(
            event = "durable.signal_failed",
            entity = request.requested.operation.target,
            operation = request.requested.operation.name,
            kind = failure.kind,
            "a signalled operation failed",
        );
    }
}

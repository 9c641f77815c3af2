//! Requests to idle entities, run where they arrive.

use std::sync::Arc;

use steadfast_core::limits;
use steadfast_core::task::name_task;
use tokio::sync::oneshot;

use super::task_hub::{TaskHub, unreadable};
use crate::command::{Command, DirectCommit, OperationRequest, RepeatableRequest, Reply};
use crate::dispatch::{CachedState, LocalOutcome, LocalRequest};
use crate::entity::{EntityRecord, Outcome, log_failure};
use crate::error::Result;
use crate::id::EntityId;
use crate::inline::{InlineExecutor, OperationRun};
use crate::rows::{self, ENTITIES, STATES};

impl TaskHub {
    /// Runs a request here, if the entity is idle and its code is in this process.
    pub(super) async fn settle(&self, request: Box<OperationRequest>) -> Result<LocalOutcome> {
        let operation = &request.requested.operation;
        let entity = operation.target.clone();
        let operator = self.queue.local_entities.executor(&entity, &operation.name);
        let Some(operator) = operator.filter(|_| operation.scheduled.is_none()) else {
            return Ok(LocalOutcome::Queue(request));
        };
        let (answer, settled) = oneshot::channel();
        match self
            .queue
            .local_entities
            .join(&entity, LocalRequest { request, answer })
        {
            Err(asked) => return Ok(LocalOutcome::Queue(asked.request)),
            Ok(true) => {
                let hub = self.clone();
                tokio::spawn(name_task(
                    async move { hub.drive(&entity, &operator).await },
                ));
            }
            Ok(false) => {}
        }
        settled.await.unwrap_or_else(|_| Err(unreadable()))
    }

    /// Runs requests to an entity until none waits.
    async fn drive(&self, entity: &str, operator: &Arc<dyn InlineExecutor>) {
        let Ok(id) = EntityId::parse(entity) else {
            return;
        };
        while let Some((batch, warm)) = self.queue.local_entities.next(entity) {
            let base = match warm {
                Some(warm) => self.still(entity, warm),
                None => self.base(entity).await,
            };
            match base {
                Some(base) => self.run(&id, entity, base, batch, operator).await,
                None => give_back(batch),
            }
        }
    }

    /// The cached state, if the partition has not moved since it was cached.
    fn still(&self, entity: &str, warm: CachedState) -> Option<CachedState> {
        let door = self.mailbox(entity)?;
        (door.ledger().epoch() == warm.epoch).then_some(warm)
    }

    /// The state of an idle entity; `None` if it is not idle, or not here.
    async fn base(&self, entity: &str) -> Option<CachedState> {
        let door = self.mailbox(entity)?;
        let epoch = door.ledger().epoch();
        let key = rows::key(self.name.as_bytes(), entity.as_bytes());
        // Reads the row before the state: a state that is newer than its row is detected,
        // because the entity then has another generation.
        let row = door.row(ENTITIES, &key).await.ok()?;
        let row: EntityRecord = match row {
            Some(row) => rows::decode(&row).ok()?,
            None => EntityRecord::default(),
        };
        if !row.is_at_rest() {
            return None;
        }
        let state = if row.exists {
            door.row(STATES, &key).await.ok()?
        } else {
            None
        };
        let state = state.map(|state| String::from_utf8_lossy(&state).into());
        Some(CachedState {
            epoch,
            version: row.generation,
            state,
        })
    }

    /// Runs a batch and commits the results.
    async fn run(
        &self,
        id: &EntityId,
        entity: &str,
        base: CachedState,
        batch: Vec<LocalRequest>,
        operator: &Arc<dyn InlineExecutor>,
    ) {
        let mut state = base.state.as_deref().map(str::to_owned);
        let (mut done, mut noted, mut actions) = (Vec::new(), Vec::new(), Vec::new());
        let mut batch = batch.into_iter();
        let mut room = CommitBudget::default();
        for asked in batch.by_ref() {
            let ran = operator.run_operation(id, &asked.request.requested, state.as_deref());
            let Some(mut ran) = ran.filter(|ran| room.takes(ran)) else {
                give_back(std::iter::once(asked));
                break;
            };
            state = ran.state;
            actions.append(&mut ran.actions);
            let outcome = Outcome::from(ran.outcome);
            noted.extend(note(&asked.request, &outcome));
            done.push((asked, outcome));
        }
        give_back(batch);
        let direct = DirectCommit {
            version: base.version,
            noted,
            actions,
            is_changed: state.as_deref() != base.state.as_deref(),
            state: state.clone(),
        };
        let version = match (&state, direct.is_written()) {
            // Without a state there is no row with a generation.
            (None, _) => 0,
            (Some(_), is_written) => base.version + u64::from(is_written),
        };
        if done.is_empty() {
            return;
        }
        let said = self.ask(entity, Command::Direct(direct)).await;
        match said {
            Ok(Reply::Done) => self.queue.local_entities.keep(
                entity,
                CachedState {
                    epoch: base.epoch,
                    version,
                    state: state.map(Into::into),
                },
            ),
            _ => self.queue.local_entities.forget(entity),
        }
        tell(done, &said);
    }
}

/// The bytes that runs use of one commit.
#[derive(Default)]
struct CommitBudget {
    used: usize,
}

impl CommitBudget {
    /// Whether a run fits into the commit. One that does not goes into the queue, and runs
    /// again in a batch of its own.
    fn takes(&mut self, ran: &OperationRun) -> bool {
        self.used += ran.bytes();
        let state = ran.state.as_ref().map_or(0, String::len);
        ran.is_short() && self.used + state <= limits::BATCH_COMMIT_BYTES
    }
}

/// The record of a request that its client may repeat.
fn note(request: &OperationRequest, outcome: &Outcome) -> Option<RepeatableRequest> {
    let client = request.client.filter(|client| client.is_repeatable)?;
    Some(RepeatableRequest {
        request: request.requested.operation.request.clone(),
        outcome: client.is_call.then(|| outcome.clone()),
    })
}

/// Sends the outcomes to the callers.
fn tell(done: Vec<(LocalRequest, Outcome)>, said: &Result<Reply>) {
    for (LocalRequest { request, answer }, outcome) in done {
        let settled = match said {
            Ok(Reply::Done) => {
                log_failure(&request, &outcome);
                Ok(LocalOutcome::Run(outcome))
            }
            Ok(_) => Ok(LocalOutcome::Queue(request)),
            Err(error) => Err(error.clone()),
        };
        // A caller that stopped waiting needs no answer.
        let _ = answer.send(settled);
    }
}

/// Sends requests to the queue of the entity.
fn give_back(batch: impl IntoIterator<Item = LocalRequest>) {
    for LocalRequest { request, answer } in batch {
        // A caller that stopped waiting needs no answer.
        let _ = answer.send(Ok(LocalOutcome::Queue(request)));
    }
}

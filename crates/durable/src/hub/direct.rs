//! Requests to idle entities, run where they arrive.

use std::sync::Arc;

use steadfast_core::limits;
use steadfast_core::task::named;
use tokio::sync::oneshot;

use super::task_hub::{TaskHub, unreadable};
use crate::aide::{Operated, Operator};
use crate::command::{Ask, Direct, Noted, Request, Say};
use crate::dispatch::{Asked, Settled, Warm};
use crate::entity::{Entity, Outcome, log_failure};
use crate::error::Result;
use crate::id::EntityId;
use crate::rows::{self, ENTITIES, STATES};

impl TaskHub {
    /// Runs a request here, if the entity is idle and its code is in this process.
    pub(super) async fn settle(&self, request: Box<Request>) -> Result<Settled> {
        let operation = &request.requested.operation;
        let entity = operation.target.clone();
        let operator = self.desk.locals.operator(&entity, &operation.name);
        let Some(operator) = operator.filter(|_| operation.scheduled.is_none()) else {
            return Ok(Settled::Queue(request));
        };
        let (answer, settled) = oneshot::channel();
        match self.desk.locals.join(&entity, Asked { request, answer }) {
            Err(asked) => return Ok(Settled::Queue(asked.request)),
            Ok(true) => {
                let hub = self.clone();
                tokio::spawn(named(async move { hub.drive(&entity, &operator).await }));
            }
            Ok(false) => {}
        }
        settled.await.unwrap_or_else(|_| Err(unreadable()))
    }

    /// Runs requests to an entity until none waits.
    async fn drive(&self, entity: &str, operator: &Arc<dyn Operator>) {
        let Ok(id) = EntityId::parse(entity) else {
            return;
        };
        while let Some((batch, warm)) = self.desk.locals.next(entity) {
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

    /// The cached state, if the partition has not moved since.
    fn still(&self, entity: &str, warm: Warm) -> Option<Warm> {
        let door = self.door(entity)?;
        (door.ledger().epoch() == warm.epoch).then_some(warm)
    }

    /// The state of an idle entity; `None` if it is not idle, or not here.
    async fn base(&self, entity: &str) -> Option<Warm> {
        let door = self.door(entity)?;
        let epoch = door.ledger().epoch();
        let key = rows::key(self.name.as_bytes(), entity.as_bytes());
        // Reads the row before the state: a state that is newer than its row is detected,
        // because the entity then has another generation.
        let row = door.row(ENTITIES, &key).await.ok()?;
        let row: Entity = match row {
            Some(row) => rows::decode(&row).ok()?,
            None => Entity::default(),
        };
        if !row.is_at_rest() {
            return None;
        }
        let state = match row.exists {
            true => door.row(STATES, &key).await.ok()?,
            false => None,
        };
        let state = state.map(|state| String::from_utf8_lossy(&state).into());
        Some(Warm {
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
        base: Warm,
        batch: Vec<Asked>,
        operator: &Arc<dyn Operator>,
    ) {
        let mut state = base.state.as_deref().map(str::to_owned);
        let (mut done, mut noted, mut actions) = (Vec::new(), Vec::new(), Vec::new());
        let mut batch = batch.into_iter();
        let mut room = Room::default();
        for asked in batch.by_ref() {
            let ran = operator.operate(id, &asked.request.requested, state.as_deref());
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
        let direct = Direct {
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
        let said = self.ask(entity, Ask::Direct(direct)).await;
        match said {
            Ok(Say::Done) => self.desk.locals.keep(
                entity,
                Warm {
                    epoch: base.epoch,
                    version,
                    state: state.map(Into::into),
                },
            ),
            _ => self.desk.locals.forget(entity),
        }
        tell(done, &said);
    }
}

/// The bytes that runs use of one commit.
#[derive(Default)]
struct Room {
    used: usize,
}

impl Room {
    /// Whether a run fits into the commit. One that does not goes into the queue, and runs
    /// again in a batch of its own.
    fn takes(&mut self, ran: &Operated) -> bool {
        self.used += ran.bytes();
        let state = ran.state.as_ref().map_or(0, String::len);
        ran.is_short() && self.used + state <= limits::BATCH_COMMIT_BYTES
    }
}

/// The record of a request that its client may repeat.
fn note(request: &Request, outcome: &Outcome) -> Option<Noted> {
    let client = request.client.filter(|client| client.is_repeatable)?;
    Some(Noted {
        request: request.requested.operation.request.clone(),
        outcome: client.is_call.then(|| outcome.clone()),
    })
}

/// Sends the outcomes to the callers.
fn tell(done: Vec<(Asked, Outcome)>, said: &Result<Say>) {
    for (Asked { request, answer }, outcome) in done {
        let settled = match said {
            Ok(Say::Done) => {
                log_failure(&request, &outcome);
                Ok(Settled::Run(outcome))
            }
            Ok(_) => Ok(Settled::Queue(request)),
            Err(error) => Err(error.clone()),
        };
        // A caller that has gone needs no answer.
        let _ = answer.send(settled);
    }
}

/// Sends requests to the queue of the entity.
fn give_back(batch: impl IntoIterator<Item = Asked>) {
    for Asked { request, answer } in batch {
        // A caller that has gone needs no answer.
        let _ = answer.send(Ok(Settled::Queue(request)));
    }
}

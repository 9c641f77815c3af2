//! Client operations on entities.
//!
//! A request to an idle entity whose code is in this process runs where it arrives;
//! others go into the queue of their entity.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::id::Epoch;
use steadfast_core::limits;
use steadfast_core::task::name_task;
use steadfast_partition::{Error as PartitionError, ReadView};
use tokio::sync::oneshot;

use super::task_hub::{TaskHub, check_payload, unreadable};
use crate::command::{
    ClientOrigin, Command, DirectCommit, OperationRequest, RepeatableRequest, Reply,
};
use crate::dispatch::{CachedState, LocalOutcome, LocalRequest};
use crate::entity::{EntityRecord, LockHolder, Outcome, log_failure};
use crate::error::{Error, ErrorKind, Result};
use crate::event::EntityOperation;
use crate::failure::FailureDetails;
use crate::id::{EntityId, fresh_guid};
use crate::inline::{InlineExecutor, OperationRun};
use crate::instance::InstanceRecord;
use crate::moment::Moment;
use crate::rows::{self, ENTITIES, INSTANCES, STATES};
use crate::view::EntityView;
use crate::work::QueuedOperation;

/// How long a client waits for room in the queue of an entity.
const ROOM_WAIT: Duration = Duration::from_secs(5);
/// The interval between its attempts.
const ROOM_LOOK: Duration = Duration::from_millis(50);

/// How a call ended.
pub(super) enum CallOutcome {
    Answered(Outcome),
    /// The request is in the queue of the entity, but the partition has another owner or a
    /// new tenure: the answer may not arrive here.
    Moved(Box<OperationRequest>),
}

impl TaskHub {
    /// Sends an operation to an entity, and waits until it is durable. Repeats of the same
    /// request are deduplicated for ten minutes.
    pub async fn signal(&self, operation: EntityOperation) -> Result<()> {
        let client = ClientOrigin {
            is_repeatable: !operation.request.is_empty(),
            is_call: false,
        };
        match self.settle(request(operation, client)?).await? {
            LocalOutcome::Run(_) => Ok(()),
            LocalOutcome::Queue(request) => self.enter(&request).await.map(drop),
        }
    }

    /// Calls an operation of an entity and waits for its result: one turn, no
    /// orchestration. A call with a request id may be repeated for ten minutes: it runs
    /// once, and every repeat gets its answer.
    pub async fn call(
        &self,
        operation: EntityOperation,
    ) -> Result<std::result::Result<Option<String>, FailureDetails>> {
        let client = ClientOrigin {
            is_repeatable: !operation.request.is_empty(),
            is_call: true,
        };
        let request = request(operation, client)?;
        let outcome = if self.is_here(&request.requested.operation.target) {
            self.call_along(request).await?
        } else {
            self.call_there(*request).await?
        };
        Ok(Outcome::into_result(outcome))
    }

    /// Calls an entity of this node, and follows it if it moves during the call.
    async fn call_along(&self, mut request: Box<OperationRequest>) -> Result<Outcome> {
        loop {
            request = match self.call_here(request).await? {
                CallOutcome::Answered(outcome) => return Ok(outcome),
                CallOutcome::Moved(request) => request,
            };
            let entity = &request.requested.operation.target;
            if !request.is_repeatable() {
                let unknown = PartitionError::unknown(self.partition(entity), None);
                return Err(Error::from(unknown));
            }
            if !self.is_here(entity) {
                return self.call_there(*request).await;
            }
        }
    }

    /// Calls an entity of this node.
    pub(super) async fn call_here(&self, request: Box<OperationRequest>) -> Result<CallOutcome> {
        let request = match self.settle(request).await? {
            LocalOutcome::Run(outcome) => return Ok(CallOutcome::Answered(outcome)),
            LocalOutcome::Queue(request) => request,
        };
        let (entity, id) = {
            let operation = &request.requested.operation;
            (operation.target.clone(), operation.request.clone())
        };
        let waits = self.inner.dispatcher.waiters();
        let mut line = waits.wait_for_answer(&self.name, &entity, &id);
        let since = self.tenure(&entity);
        let outcome = match self.enter(&request).await? {
            Reply::Answered(outcome) => Some(outcome),
            _ => tokio::select! {
                biased;
                answer = line.answer() => answer,
                () = self.left(&request, since) => return Ok(CallOutcome::Moved(request)),
            },
        };
        outcome.map(CallOutcome::Answered).ok_or_else(unreadable)
    }

    /// Waits until the answer to a request may go to another waiter. For a request that
    /// cannot be repeated, waits as long as this node serves its entity.
    async fn left(&self, request: &OperationRequest, mut since: Option<Epoch>) {
        let entity = &request.requested.operation.target;
        loop {
            self.moved(entity, since).await;
            if request.is_repeatable() || !self.is_here(entity) {
                return;
            }
            since = self.tenure(entity);
        }
    }

    /// Puts a request into the queue; if that is full, waits a while for room.
    async fn enter(&self, request: &OperationRequest) -> Result<Reply> {
        let entity = request.requested.operation.target.clone();
        let until = tokio::time::Instant::now() + ROOM_WAIT;
        loop {
            let said = self.ask(&entity, Command::Request(request.clone())).await;
            match said {
                Err(error)
                    if error.kind() == ErrorKind::Crowded
                        && tokio::time::Instant::now() < until =>
                {
                    tokio::time::sleep(ROOM_LOOK).await;
                }
                said => return said,
            }
        }
    }

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

    /// An entity as last committed; `None` if it does not exist.
    pub async fn entity(&self, entity: &str, has_state: bool) -> Result<Option<EntityView>> {
        let id = EntityId::parse(entity)?.to_string();
        let glance = self.read_view(&id)?;
        let key = rows::key(self.name.as_bytes(), id.as_bytes());
        let Some(row) = glance.get(ENTITIES, &key).await? else {
            return Ok(None);
        };
        let row: EntityRecord = rows::decode(&row).map_err(|_| unreadable())?;
        self.view(&glance, &key, id, row, has_state).await.map(Some)
    }

    /// The client's view of an entity.
    pub(super) async fn view(
        &self,
        glance: &ReadView,
        key: &[u8],
        entity: String,
        mut row: EntityRecord,
        has_state: bool,
    ) -> Result<EntityView> {
        let mut state = None;
        if has_state && row.exists {
            let found = glance.get(STATES, key).await?;
            state = found.map(|state| String::from_utf8_lossy(&state).into_owned());
        }
        let locked_by = match row.lock_holder.take() {
            Some(held) => self.holder(held).await?,
            None => None,
        };
        Ok(EntityView {
            entity,
            modified: Moment::from(row.modified),
            backlog: row.backlog(),
            exists: row.exists,
            locked_by,
            state,
        })
    }

    /// The instance that holds a lock. An execution that ends releases its locks by messages
    /// after its commit; a client that has seen the end must not see the lock any more. The
    /// entity was read first, so an end that a client has seen is visible here, too.
    async fn holder(&self, held: LockHolder) -> Result<Option<String>> {
        let key = rows::key(self.name.as_bytes(), held.instance.as_bytes());
        let window = self.inner.router.reader(self.partition(&held.instance));
        // If the holder cannot be read, the entity's row counts.
        let Ok(row) = window.row(INSTANCES, &key).await else {
            return Ok(Some(held.instance));
        };
        let row = row
            .as_deref()
            .map(rows::decode::<InstanceRecord>)
            .transpose();
        let row = row.map_err(|_| unreadable())?;
        let is_live = row.is_some_and(|row| {
            let is_same = row.execution == held.execution;
            is_same && !row.status.is_final()
        });
        Ok(is_live.then_some(held.instance))
    }

    /// Releases a lock of any holder, by its critical section; returns whether it was held.
    pub async fn break_lock(&self, entity: &str, section: &str) -> Result<bool> {
        let id = EntityId::parse(entity)?.to_string();
        let section = section.to_owned();
        Ok(self.ask(&id, Command::Unlock { section }).await? == Reply::Done)
    }
}

/// A client's request; adds an id if it has none.
fn request(operation: EntityOperation, client: ClientOrigin) -> Result<Box<OperationRequest>> {
    check_payload(operation.input.as_ref())?;
    let target = EntityId::parse(&operation.target)?.to_string();
    if operation.name.is_empty() {
        let message = "an operation needs a name";
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let request = if operation.request.is_empty() {
        fresh_guid()
    } else {
        operation.request
    };
    if request.len() > 128 || request.chars().any(char::is_control) {
        let message =
            "the id of a request is at most 128 characters, none of them a control character";
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let operation = EntityOperation {
        request,
        target,
        parent: None,
        parent_execution: None,
        ..operation
    };
    Ok(Box::new(OperationRequest {
        requested: QueuedOperation {
            operation,
            is_signal: !client.is_call,
        },
        client: Some(client),
    }))
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

//! Runs work items with user functions.

use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use parking_lot::{Mutex, RwLock};
use steadfast_core::task::name_task;
use tokio::task::JoinHandle;

use super::activity::ActivityContext;
use super::entity::EntityContext;
use super::functions::{EntityFunction, Functions};
use super::payload::panicked;
use super::replay::Replay;
use crate::failure::FailureDetails;
use crate::id::EntityId;
use crate::inline::{InlineExecutor, OperationRun};
use crate::outgoing::Outgoing;
use crate::work::{
    ActivityRun, ActivityWork, BatchResult, BatchWork, HistoryPosition, QueuedOperation,
    TurnResult, TurnWork, WorkFilters, WorkPayload,
};

/// Instances that are kept in memory between their turns.
const WARM: usize = 4096;

/// Operations of an entity's type that are recorded as slow because they wait; if there
/// are more, all of them count as slow.
const SLOW: usize = 256;

/// Runs work with the functions of this process, for a task hub of this node or of
/// another one. Clones share one state.
#[derive(Clone)]
pub struct FunctionRunner {
    functions: Arc<Functions>,
    /// Instances as their last turn left them.
    warm: Arc<Mutex<HashMap<String, Replay>>>,
    /// Operations that wait for something, by name of the entity.
    slow: Arc<RwLock<HashMap<String, HashSet<String>>>>,
    /// Started operations, by entity.
    begun: Arc<Mutex<HashMap<String, StartedOperation>>>,
    outgoing: Outgoing,
}

/// The result of work.
#[derive(Debug)]
pub enum RunResult {
    Turn(TurnResult),
    /// The code does not match the history; the text says how. The instance does not fail:
    /// it waits for matching code.
    CodeChanged(String),
    Activity(ActivityRun),
    Batch(BatchResult),
}

impl FunctionRunner {
    /// A runner of these functions.
    pub fn new(functions: Functions) -> Self {
        Self {
            functions: Arc::new(functions),
            warm: Arc::default(),
            slow: Arc::default(),
            begun: Arc::default(),
            outgoing: Outgoing::Unsupported,
        }
    }

    /// The same in the process of a node: its functions can send messages to other services.
    #[must_use]
    pub(super) fn in_node(self) -> Self {
        let outgoing = Outgoing::Local;
        Self { outgoing, ..self }
    }

    /// The names that it has functions for.
    pub fn filters(&self) -> WorkFilters {
        self.functions.filters()
    }

    /// Runs a work item.
    pub async fn run(&self, work: WorkPayload) -> RunResult {
        match work {
            WorkPayload::Turn(work) => self.turn(&work),
            WorkPayload::Activity(work) => RunResult::Activity(self.activity(*work).await),
            WorkPayload::Batch(work) => RunResult::Batch(self.batch(*work).await),
        }
    }

    fn turn(&self, work: &TurnWork) -> RunResult {
        let warm = self.warm.lock().remove(&work.instance);
        let warm = warm.filter(|replay| replay.fits(work));
        if warm.is_none() && work.remembered.is_some() {
            // The instance was evicted in the meantime.
            return RunResult::Turn(TurnResult {
                needs_history: true,
                ..TurnResult::default()
            });
        }
        let mut replay = warm.unwrap_or_else(|| Replay::new(work));
        match replay.turn(work, &self.functions) {
            Ok(result) => {
                let is_over = result.actions.last().is_some_and(|action| action.id == -1);
                if !is_over {
                    self.keep(work.instance.clone(), replay);
                }
                RunResult::Turn(result)
            }
            Err(mismatch) => RunResult::CodeChanged(mismatch.to_string()),
        }
    }

    fn keep(&self, instance: String, replay: Replay) {
        let mut warm = self.warm.lock();
        // All of them can be replayed.
        let all = (warm.len() >= WARM).then(|| std::mem::take(&mut *warm));
        let former = warm.insert(instance, replay);
        drop(warm);
        // Drops user code outside the lock.
        drop((all, former));
    }

    async fn activity(&self, work: ActivityWork) -> ActivityRun {
        let Some(function) = self.functions.activities.get(&work.task.name) else {
            let message = format!("there is no activity {:?} in this process", work.task.name);
            return Err(FailureDetails::lasting("UnknownActivity", message)).into();
        };
        let messages = Arc::default();
        let context = ActivityContext {
            instance: work.instance,
            execution: work.execution,
            id: work.id,
            messages: Arc::clone(&messages),
            outgoing: self.outgoing,
        };
        let input = work.task.input;
        let run = AssertUnwindSafe(async move { function(context, input).await });
        let result = run.catch_unwind().await;
        let result = result.unwrap_or_else(|panic| Err(panicked(&*panic)));
        let messages = match &result {
            Ok(_) => std::mem::take(&mut *messages.lock()),
            Err(_) => Vec::new(),
        };
        ActivityRun { result, messages }
    }

    async fn batch(&self, work: BatchWork) -> BatchResult {
        let mut result = BatchResult {
            state: work.state,
            ..BatchResult::default()
        };
        let Ok(entity) = EntityId::parse(&work.entity) else {
            result.failure = Some(FailureDetails::lasting("InvalidEntityId", work.entity));
            return result;
        };
        let Some(function) = self.functions.entities.get(entity.name()) else {
            let message = format!("there is no entity {:?} in this process", entity.name());
            let failure = FailureDetails::lasting("UnknownEntity", message);
            let failed = work.operations.iter().map(|_| Err(failure.clone()));
            result.results = failed.collect();
            return result;
        };
        let mut begun = self.begun.lock().remove(&work.entity);
        for asked in work.operations {
            let state = result.state.take();
            let fits = begun.take_if(|begun| begun.fits(&asked, state.as_deref()));
            let mut ran = match fits {
                Some(begun) => begun.end(self, function, &entity, asked, state).await,
                None => self.operate(function, entity.clone(), asked, state).await,
            };
            result.state = ran.state;
            result.actions.append(&mut ran.actions);
            result.results.push(ran.outcome);
        }
        result
    }

    /// Runs one operation; if it fails, state and messages are discarded.
    fn operate(
        &self,
        function: &EntityFunction,
        entity: EntityId,
        asked: QueuedOperation,
        state: Option<String>,
    ) -> impl Future<Output = OperationRun> + Send + use<> {
        operate(Arc::clone(function), entity, asked, state, self.outgoing)
    }
}

async fn operate(
    function: EntityFunction,
    entity: EntityId,
    asked: QueuedOperation,
    state: Option<String>,
    outgoing: Outgoing,
) -> OperationRun {
    let before = state.clone();
    let mut context = EntityContext {
        entity,
        operation: asked.operation.name,
        input: asked.operation.input,
        is_signal: asked.is_signal,
        state,
        actions: Vec::new(),
        is_settled: false,
        outgoing,
    };
    // Catches panics before the first `await`, too.
    let run = AssertUnwindSafe(async { function(&mut context).await }).catch_unwind();
    let outcome = run.await.unwrap_or_else(|panic| Err(panicked(&*panic)));
    let (state, actions) = if outcome.is_ok() {
        (context.state, context.actions)
    } else {
        (before, Vec::new())
    };
    OperationRun {
        outcome,
        state,
        actions,
    }
}

impl InlineExecutor for FunctionRunner {
    fn is_quick(&self, entity: &str, operation: &str) -> bool {
        let slow = self.slow.read();
        let is_slow = slow
            .get(entity)
            .is_some_and(|all| all.len() >= SLOW || all.contains(operation));
        !is_slow && self.functions.entities.contains_key(entity)
    }

    fn run_operation(
        &self,
        entity: &EntityId,
        asked: &QueuedOperation,
        state: Option<&str>,
    ) -> Option<OperationRun> {
        let function = self.functions.entities.get(entity.name())?;
        let state_before = state.map(str::to_owned);
        let run = self.operate(function, entity.clone(), asked.to_run(), state_before);
        let mut run = Box::pin(run);
        let mut poller = std::task::Context::from_waker(std::task::Waker::noop());
        if let std::task::Poll::Ready(ran) = run.as_mut().poll(&mut poller) {
            return Some(ran);
        }
        let mut slow = self.slow.write();
        let names = slow.entry(entity.name().to_owned()).or_default();
        if names.len() < SLOW {
            names.insert(asked.operation.name.clone());
        }
        drop(slow);
        let begun = StartedOperation {
            request: asked.operation.request.clone(),
            state: state.map(str::to_owned),
            task: tokio::spawn(name_task(run)),
        };
        let mut all = self.begun.lock();
        if all.len() >= WARM {
            // All of them can be started again.
            all.clear();
        }
        all.insert(entity.to_string(), begun);
        None
    }

    fn knows(&self, name: &str, version: Option<&str>) -> bool {
        self.functions.knows(name, version)
    }

    fn remembers(&self, instance: &str, execution: &str, past: HistoryPosition) -> bool {
        let warm = self.warm.lock();
        let replay = warm.get(instance);
        replay.is_some_and(|replay| replay.stands_at(execution, past))
    }

    fn run_turn(&self, work: &TurnWork) -> Option<TurnResult> {
        match Self::turn(self, work) {
            RunResult::Turn(result) if !result.needs_history => Some(result),
            // A worker with the history reports the mismatch.
            _ => None,
        }
    }
}

/// An operation that started before its request was stored.
struct StartedOperation {
    request: String,
    state: Option<String>,
    task: JoinHandle<OperationRun>,
}

impl StartedOperation {
    fn fits(&self, asked: &QueuedOperation, state: Option<&str>) -> bool {
        self.request == asked.operation.request && self.state.as_deref() == state
    }

    /// Waits for the result; runs the operation again if it was aborted.
    async fn end(
        mut self,
        runner: &FunctionRunner,
        function: &EntityFunction,
        entity: &EntityId,
        asked: QueuedOperation,
        state: Option<String>,
    ) -> OperationRun {
        match (&mut self.task).await {
            Ok(ran) => ran,
            Err(_) => runner.operate(function, entity.clone(), asked, state).await,
        }
    }
}

impl Drop for StartedOperation {
    fn drop(&mut self) {
        self.task.abort();
    }
}

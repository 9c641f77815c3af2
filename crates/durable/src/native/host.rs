//! A worker in this process.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::task::{AbortHandle, JoinSet};

use super::activity::ActivityContext;
use super::entity::EntityContext;
use super::functions::Functions;
use super::payload::panicked;
use super::replay::{Mismatch, Replay};
use crate::failure::Failure;
use crate::hub::TaskHub;
use crate::id::EntityId;
use crate::work::{
    ActivityResult, ActivityWork, BatchResult, BatchWork, Item, Requested, Terms, TurnWork, Work,
};

/// Runs functions for a task hub until it is dropped. What is under way then is run
/// again by somebody else, or when the process comes back.
pub struct Host {
    task: AbortHandle,
}

impl Drop for Host {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Instances that are kept in memory between their turns.
const WARM: usize = 4096;

#[derive(Clone)]
struct Bench {
    hub: TaskHub,
    functions: Arc<Functions>,
    /// Instances as their last turn left them.
    warm: Arc<Mutex<HashMap<String, Replay>>>,
}

impl Host {
    /// Starts to take work.
    pub fn start(hub: TaskHub, functions: Functions) -> Self {
        let terms = Terms {
            name: "this process".into(),
            filters: Some(functions.filters()),
            ..Terms::default()
        };
        let mut worker = hub.worker(terms);
        let bench = Bench {
            hub,
            functions: Arc::new(functions),
            warm: Arc::default(),
        };
        let task = tokio::spawn(async move {
            let mut running = JoinSet::new();
            while let Some(item) = worker.next().await {
                while running.try_join_next().is_some() {}
                let bench = bench.clone();
                running.spawn(async move { bench.run(item).await });
            }
        });
        Self {
            task: task.abort_handle(),
        }
    }
}

impl Bench {
    async fn run(self, item: Item) {
        let Item { token, work } = item;
        let done = match work {
            Work::Turn(work) => self.turn(&token, &work).await,
            Work::Activity(work) => {
                let (instance, id) = (work.instance.clone(), work.id);
                let result = self.activity(*work).await;
                self.hub
                    .complete_activity(&token, &instance, id, result)
                    .await
            }
            Work::Batch(work) => {
                let entity = work.entity.clone();
                let result = self.batch(*work).await;
                self.hub.complete_batch(&token, &entity, result).await
            }
        };
        if let Err(error) = done {
            // The desk gives it out again.
            tracing::warn!(
                event = "durable.result_not_in",
                %error,
                "the result of a worker in this process could not be brought in",
            );
        }
    }

    async fn turn(&self, token: &str, work: &TurnWork) -> crate::error::Result<bool> {
        let warm = self.warm.lock().remove(&work.instance);
        let warm = warm.filter(|replay| replay.fits(work));
        let mut replay = warm.unwrap_or_else(|| Replay::new(work));
        match replay.turn(work, &self.functions) {
            Ok(result) => {
                let is_over = result.actions.last().is_some_and(|action| action.id == -1);
                if !is_over {
                    self.keep(work.instance.clone(), replay);
                }
                self.hub.complete_turn(token, &work.instance, result).await
            }
            Err(mismatch) => self.suspend(token, work, &mismatch).await,
        }
    }

    fn keep(&self, instance: String, replay: Replay) {
        let mut warm = self.warm.lock();
        if warm.len() >= WARM {
            // They can all be replayed.
            warm.clear();
        }
        warm.insert(instance, replay);
    }

    /// Code that does not fit the history is no failure of the instance: it waits
    /// for the code that does.
    async fn suspend(
        &self,
        token: &str,
        work: &TurnWork,
        mismatch: &Mismatch,
    ) -> crate::error::Result<bool> {
        let instance = &work.instance;
        tracing::error!(
            event = "durable.code_changed",
            instance,
            %mismatch,
            "an orchestration is suspended because its code has changed",
        );
        let reason = Some(mismatch.to_string());
        self.hub.suspend(instance, reason).await?;
        self.hub.abandon(token).await
    }

    async fn activity(&self, work: ActivityWork) -> ActivityResult {
        let Some(function) = self.functions.activities.get(&work.task.name) else {
            let message = format!("there is no activity {:?} in this process", work.task.name);
            return Err(Failure::lasting("UnknownActivity", message));
        };
        let context = ActivityContext {
            instance: work.instance,
            execution: work.execution,
            id: work.id,
        };
        let input = work.task.input;
        let run = AssertUnwindSafe(async move { function(context, input).await });
        run.catch_unwind()
            .await
            .unwrap_or_else(|panic| Err(panicked(&*panic)))
    }

    async fn batch(&self, work: BatchWork) -> BatchResult {
        let mut result = BatchResult {
            state: work.state,
            ..BatchResult::default()
        };
        let Ok(entity) = EntityId::parse(&work.entity) else {
            result.failure = Some(Failure::lasting("InvalidEntityId", work.entity));
            return result;
        };
        for requested in work.operations {
            self.operation(&entity, requested, &mut result).await;
        }
        result
    }

    /// Runs one operation; if it fails, everything is as it was before.
    async fn operation(&self, entity: &EntityId, requested: Requested, result: &mut BatchResult) {
        let Some(function) = self.functions.entities.get(entity.name()) else {
            let message = format!("there is no entity {:?} in this process", entity.name());
            let failure = Failure::lasting("UnknownEntity", message);
            result.results.push(Err(failure));
            return;
        };
        let operation = requested.operation;
        let mut context = EntityContext {
            entity: entity.clone(),
            operation: operation.name,
            input: operation.input,
            is_signal: requested.is_signal,
            state: result.state.clone(),
            actions: Vec::new(),
            is_settled: false,
        };
        let run = AssertUnwindSafe(function(&mut context)).catch_unwind();
        let outcome = run.await.unwrap_or_else(|panic| Err(panicked(&*panic)));
        if outcome.is_ok() {
            result.state = context.state;
            result.actions.append(&mut context.actions);
        }
        result.results.push(outcome);
    }
}

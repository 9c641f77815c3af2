//! A worker in this process.

use std::sync::Arc;

use steadfast_core::task::name_task;
use tokio::task::{AbortHandle, JoinSet};

use super::functions::Functions;
use super::runner::{FunctionRunner, RunResult};
use crate::error::Result;
use crate::hub::TaskHub;
use crate::inline::InlineExecutor;
use crate::work::{WorkDelivery, WorkPayload, WorkerOptions};

/// Runs functions for a task hub until it is dropped. Unfinished work is then run by
/// another worker, or after a restart of the process.
pub struct FunctionHost {
    hub: TaskHub,
    task: AbortHandle,
}

impl Drop for FunctionHost {
    fn drop(&mut self) {
        self.hub.set_executor(None);
        self.task.abort();
    }
}

#[derive(Clone)]
struct HubRunner {
    hub: TaskHub,
    runner: FunctionRunner,
}

impl FunctionHost {
    /// Starts a worker.
    pub fn start(hub: TaskHub, functions: Functions) -> Self {
        let runner = FunctionRunner::new(functions).in_node();
        let terms = WorkerOptions {
            name: "this process".into(),
            filters: Some(runner.filters()),
            ..WorkerOptions::default()
        };
        let mut worker = hub.worker(terms);
        let operator: Arc<dyn InlineExecutor> = Arc::new(runner.clone());
        worker.remember(Arc::clone(&operator));
        hub.set_executor(Some(operator));
        let bench = HubRunner {
            hub: hub.clone(),
            runner,
        };
        let task = tokio::spawn(name_task(async move {
            let mut running = JoinSet::new();
            while let Some(item) = worker.next().await {
                while running.try_join_next().is_some() {}
                let bench = bench.clone();
                running.spawn(async move { bench.run(item).await });
            }
        }));
        Self {
            hub,
            task: task.abort_handle(),
        }
    }
}

impl HubRunner {
    async fn run(self, item: WorkDelivery) {
        if let Err(error) = self.done(item).await {
            // The work queue assigns the item again.
            tracing::warn!(
                event = "durable.result_not_in",
                %error,
                "the result of a worker in this process was not committed; it runs again",
            );
        }
    }

    /// Runs an item and commits its result.
    async fn done(&self, WorkDelivery { token, work }: WorkDelivery) -> Result<bool> {
        let (instance, id) = match &work {
            WorkPayload::Turn(work) => (work.instance.clone(), 0),
            WorkPayload::Activity(work) => (work.instance.clone(), work.id),
            WorkPayload::Batch(work) => (work.entity.clone(), 0),
        };
        match self.runner.run(work).await {
            RunResult::Turn(result) => self.hub.complete_turn(&token, &instance, result).await,
            RunResult::Activity(run) => {
                let done = self.hub.complete_activity_run(&token, &instance, id, run);
                done.await
            }
            RunResult::Batch(result) => self.hub.complete_batch(&token, &instance, result).await,
            RunResult::CodeChanged(mismatch) => self.suspend(&token, &instance, mismatch).await,
        }
    }

    /// Suspends an instance whose history does not match the code: it waits for matching
    /// code instead of failing.
    async fn suspend(&self, token: &str, instance: &str, mismatch: String) -> Result<bool> {
        tracing::error!(
            event = "durable.code_changed",
            instance,
            mismatch,
            "an orchestration is suspended because its code has changed",
        );
        self.hub.suspend(instance, Some(mismatch)).await?;
        self.hub.abandon(token).await
    }
}

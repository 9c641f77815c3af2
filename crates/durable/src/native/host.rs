//! A worker in this process.

use std::sync::Arc;

use steadfast_core::task::named;
use tokio::task::{AbortHandle, JoinSet};

use super::functions::Functions;
use super::runner::{Ran, Runner};
use crate::aide::Operator;
use crate::error::Result;
use crate::hub::TaskHub;
use crate::work::{Item, Terms, Work};

/// Runs functions for a task hub until it is dropped. Unfinished work is then run by
/// another worker, or after a restart of the process.
pub struct Host {
    hub: TaskHub,
    task: AbortHandle,
}

impl Drop for Host {
    fn drop(&mut self) {
        self.hub.set_operator(None);
        self.task.abort();
    }
}

#[derive(Clone)]
struct Bench {
    hub: TaskHub,
    runner: Runner,
}

impl Host {
    /// Starts a worker.
    pub fn start(hub: TaskHub, functions: Functions) -> Self {
        let runner = Runner::new(functions);
        let terms = Terms {
            name: "this process".into(),
            filters: Some(runner.filters()),
            ..Terms::default()
        };
        let mut worker = hub.worker(terms);
        let operator: Arc<dyn Operator> = Arc::new(runner.clone());
        worker.remember(Arc::clone(&operator));
        hub.set_operator(Some(operator));
        let bench = Bench {
            hub: hub.clone(),
            runner,
        };
        let task = tokio::spawn(named(async move {
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

impl Bench {
    async fn run(self, item: Item) {
        if let Err(error) = self.done(item).await {
            // The work queue assigns it again.
            tracing::warn!(
                event = "durable.result_not_in",
                %error,
                "the result of a worker in this process was not committed; it runs again",
            );
        }
    }

    /// Runs an item and commits its result.
    async fn done(&self, Item { token, work }: Item) -> Result<bool> {
        let (instance, id) = match &work {
            Work::Turn(work) => (work.instance.clone(), 0),
            Work::Activity(work) => (work.instance.clone(), work.id),
            Work::Batch(work) => (work.entity.clone(), 0),
        };
        match self.runner.run(work).await {
            Ran::Turn(result) => self.hub.complete_turn(&token, &instance, result).await,
            Ran::Activity(result) => {
                let done = self.hub.complete_activity(&token, &instance, id, result);
                done.await
            }
            Ran::Batch(result) => self.hub.complete_batch(&token, &instance, result).await,
            Ran::CodeChanged(mismatch) => self.suspend(&token, &instance, mismatch).await,
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

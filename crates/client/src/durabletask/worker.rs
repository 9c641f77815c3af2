//! A Rust worker of a remote task hub.

use std::time::Duration;

use steadfast_durable::native::{FunctionRunner, Functions, RunResult};
use steadfast_durable::{ActivityResult, Result, TurnResult};
use steadfast_durabletask_messages::{
    decode_work, encode_actions, encode_batch_result, encode_failure,
};
use steadfast_wire::durabletask as wire;
use steadfast_wire::durabletask::completed_task::Result as Completed;
use steadfast_wire::durabletask::work_item::Request;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};
use uuid::Uuid;

use super::channel::{TaskHubService, connect};
use super::chunks::chunks;
use super::error::{from_status, is_transient, rest, retry_backoff};
use super::results::ResultQueue;
use super::target::Target;

/// A stream that is silent for this long is dead: servers send a ping every 30 seconds.
const SILENCE: Duration = Duration::from_secs(120);
/// The attempts to send a result.
const ATTEMPTS: u32 = 10;

/// Builds a worker.
pub struct WorkerBuilder {
    target: Target,
    functions: Functions,
    name: String,
    /// The most concurrent turns, activities and batches.
    most: [u16; 3],
}

/// Runs functions for a remote task hub until it is dropped. Work items in flight are
/// then dispatched to another worker. It reconnects when the connection is lost.
pub struct TaskHubWorker {
    leaving: CancellationToken,
    is_up: watch::Receiver<bool>,
    task: tokio::task::JoinHandle<()>,
}

impl TaskHubWorker {
    /// A worker of the task hub that a connection string names, as for
    /// [`Client::connect`](super::TaskHubClient::connect).
    pub fn connect(connection: &str) -> Result<WorkerBuilder> {
        Ok(WorkerBuilder {
            target: Target::parse(connection)?,
            functions: Functions::new(),
            name: format!("rust-{}-{}", std::process::id(), Uuid::new_v4().simple()),
            most: [0; 3],
        })
    }

    /// Waits until the work stream is open.
    pub async fn ready(&self) {
        let mut is_up = self.is_up.clone();
        // The sender lives as long as the task that dials.
        let _ = is_up.wait_for(|is_up| *is_up).await;
    }

    /// Takes no more work, waits for work in flight, and stops.
    pub async fn leave(mut self, limit: Duration) {
        self.leaving.cancel();
        let _ = tokio::time::timeout(limit, &mut self.task).await;
    }
}

impl Drop for TaskHubWorker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl WorkerBuilder {
    /// The functions that it runs: entities, orchestrations and activities, as a
    /// node runs them in its own process.
    #[must_use]
    pub fn functions(mut self, add: impl FnOnce(Functions) -> Functions) -> Self {
        self.functions = add(self.functions);
        self
    }

    /// Its name in the server's logs.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// The most concurrent orchestration turns, activities and operation batches; 0 uses
    /// the server's default.
    #[must_use]
    pub fn at_a_time(mut self, turns: u16, activities: u16, batches: u16) -> Self {
        self.most = [turns, activities, batches];
        self
    }

    /// Starts to take work.
    pub fn start(self) -> Result<TaskHubWorker> {
        let leaving = CancellationToken::new();
        let (told, is_up) = watch::channel(false);
        let service = connect(self.target, Some(&self.name)).map_err(from_status)?;
        let bench = WorkItemRunner {
            results: ResultQueue::new(service.clone()),
            service,
            runner: FunctionRunner::new(self.functions),
        };
        let dialing = WorkerLoop {
            bench,
            name: self.name,
            most: self.most,
            told,
            leaving: leaving.clone(),
        };
        Ok(TaskHubWorker {
            leaving,
            is_up,
            task: tokio::spawn(dialing.keep()),
        })
    }
}

/// The loop that opens one stream after the other.
struct WorkerLoop {
    bench: WorkItemRunner,
    name: String,
    most: [u16; 3],
    told: watch::Sender<bool>,
    leaving: CancellationToken,
}

impl WorkerLoop {
    async fn keep(self) {
        let mut backoff = retry_backoff();
        let mut running = JoinSet::new();
        while !self.leaving.is_cancelled() {
            let ended = self.work(&mut running).await;
            if self.told.send_replace(false) {
                backoff.reset();
            }
            let worker = &self.name;
            match ended {
                Ok(()) => tracing::debug!(event = "durable.stream_ended", worker),
                Err(status) => {
                    let why = status.message();
                    tracing::warn!(event = "durable.stream_lost", worker, why);
                }
            }
            tokio::select! {
                () = rest(&mut backoff) => {}
                () = self.leaving.cancelled() => {}
            }
        }
        while running.join_next().await.is_some() {}
    }

    /// Takes work from one stream until it ends.
    async fn work(&self, running: &mut JoinSet<()>) -> std::result::Result<(), Status> {
        let mut service = self.bench.service.clone();
        let mut stream = service.get_work_items(self.asked()).await?.into_inner();
        loop {
            let next = tokio::time::timeout(SILENCE, stream.message());
            let item = tokio::select! {
                item = next => item,
                () = self.leaving.cancelled() => break,
            };
            let silent = |_| Status::unavailable("the server has been silent for too long");
            let Some(item) = item.map_err(silent)?? else {
                return Ok(());
            };
            self.told.send_replace(true);
            while running.try_join_next().is_some() {}
            if let Some(request) = item.request {
                let bench = self.bench.clone();
                let token = item.completion_token;
                running.spawn(async move { bench.run(token, request).await });
            }
        }
        // The stream stays open: closing it would return the work in flight to other
        // workers.
        while running.join_next().await.is_some() {}
        Ok(())
    }

    fn asked(&self) -> wire::GetWorkItemsRequest {
        let filters = self.bench.runner.filters();
        let mut orchestrations: Vec<_> = filters
            .orchestrations
            .into_iter()
            .map(|filter| wire::OrchestrationFilter {
                name: filter.name,
                versions: filter.versions,
            })
            .collect();
        let activities: Vec<_> = filters
            .activities
            .into_iter()
            .map(|filter| wire::ActivityFilter {
                name: filter.name,
                versions: filter.versions,
            })
            .collect();
        let entities = filters.entities;
        if orchestrations.is_empty() && activities.is_empty() && entities.is_empty() {
            // An empty filter matches everything; no orchestration has the empty name.
            orchestrations.push(wire::OrchestrationFilter::default());
        }
        let [turns, most_activities, batches] = self.most.map(i32::from);
        wire::GetWorkItemsRequest {
            max_concurrent_orchestration_work_items: turns,
            max_concurrent_activity_work_items: most_activities,
            max_concurrent_entity_work_items: batches,
            capabilities: vec![
                wire::WorkerCapability::HistoryStreaming.into(),
                wire::WorkerCapability::RememberedHistory.into(),
            ],
            work_item_filters: Some(wire::WorkItemFilters {
                orchestrations,
                activities,
                entities: entities
                    .into_iter()
                    .map(|name| wire::EntityFilter { name })
                    .collect(),
            }),
            worker_instance_id: self.name.clone(),
        }
    }
}

/// Runs work items concurrently.
#[derive(Clone)]
struct WorkItemRunner {
    service: TaskHubService,
    results: ResultQueue,
    runner: FunctionRunner,
}

/// The work item that a result belongs to.
struct WorkItemRef {
    token: String,
    instance: String,
    task: i32,
}

impl WorkItemRunner {
    async fn run(&self, token: String, request: Request) {
        if let Err(status) = self.done(token, request).await {
            // The server dispatches it again.
            let why = status.message();
            tracing::warn!(event = "durable.result_not_taken", why);
        }
    }

    /// Runs the work item and sends its result.
    async fn done(&self, token: String, request: Request) -> std::result::Result<(), Status> {
        let place = place(token, &request);
        let fetched = match &request {
            Request::OrchestratorRequest(turn) if turn.requires_history_streaming => {
                Some(self.history(turn).await?)
            }
            _ => None,
        };
        let work = match decode_work(request, fetched) {
            Ok(Some(work)) => work,
            Ok(None) => return Ok(()),
            Err(why) => return Err(Status::data_loss(why.to_string())),
        };
        match self.runner.run(work).await {
            RunResult::Turn(result) => self.turn_done(place, result).await,
            RunResult::Activity(run) => self.activity_done(place, run.result).await,
            RunResult::Batch(result) => {
                let result = encode_batch_result(place.token, result);
                self.bring(Completed::Entity(result)).await
            }
            RunResult::CodeChanged(mismatch) => self.suspend(place, mismatch).await,
        }
    }

    /// Fetches a history that is too long for its work item.
    async fn history(
        &self,
        turn: &wire::OrchestratorRequest,
    ) -> std::result::Result<Vec<wire::HistoryEvent>, Status> {
        let request = wire::StreamInstanceHistoryRequest {
            instance_id: turn.instance_id.clone(),
            execution_id: turn.execution_id.clone(),
            for_work_item_processing: true,
        };
        let mut service = self.service.clone();
        let mut stream = service.stream_instance_history(request).await?.into_inner();
        let mut events = Vec::new();
        while let Some(chunk) = stream.message().await? {
            events.extend(chunk.events);
        }
        Ok(events)
    }

    async fn turn_done(
        &self,
        place: WorkItemRef,
        result: TurnResult,
    ) -> std::result::Result<(), Status> {
        let whole = wire::OrchestratorResponse {
            instance_id: place.instance,
            actions: encode_actions(&result.actions),
            custom_status: result.custom_status,
            completion_token: place.token,
            requires_history: result.needs_history,
            ..wire::OrchestratorResponse::default()
        };
        let mut parts = chunks(whole);
        if parts.len() == 1
            && let Some(whole) = parts.pop()
        {
            return self.bring(Completed::Orchestrator(whole)).await;
        }
        for part in parts {
            let send = || async {
                let mut service = self.service.clone();
                service.complete_orchestrator_task(part.clone()).await
            };
            surely(send).await?;
        }
        Ok(())
    }

    async fn activity_done(
        &self,
        place: WorkItemRef,
        result: ActivityResult,
    ) -> std::result::Result<(), Status> {
        let (result, failure) = match result {
            Ok(result) => (result, None),
            Err(failure) => (None, Some(encode_failure(&failure))),
        };
        let done = wire::ActivityResponse {
            instance_id: place.instance,
            task_id: place.task,
            result,
            failure_details: failure,
            completion_token: place.token,
        };
        self.bring(Completed::Activity(done)).await
    }

    /// A code mismatch does not fail the instance: it is suspended until matching code is
    /// deployed. A worker without the right to suspend abandons the turn, which is
    /// dispatched again later.
    async fn suspend(
        &self,
        place: WorkItemRef,
        mismatch: String,
    ) -> std::result::Result<(), Status> {
        tracing::error!(
            event = "durable.code_changed",
            instance = place.instance,
            mismatch,
            "an orchestration is suspended because its code has changed",
        );
        let suspend = wire::SuspendRequest {
            instance_id: place.instance,
            reason: Some(mismatch),
        };
        let service = &self.service;
        let suspend = || async { service.clone().suspend_instance(suspend.clone()).await };
        let suspended = surely(suspend).await;
        let abandon = wire::AbandonOrchestrationTaskRequest {
            completion_token: place.token,
        };
        let abandon = || async {
            let mut service = service.clone();
            service
                .abandon_task_orchestrator_work_item(abandon.clone())
                .await
        };
        surely(abandon).await?;
        suspended
    }

    /// Sends a result.
    async fn bring(&self, result: Completed) -> std::result::Result<(), Status> {
        surely(|| self.results.submit(result.clone())).await
    }
}

/// Sends an idempotent request, with retries.
async fn surely<F, A>(send: impl Fn() -> F) -> std::result::Result<(), Status>
where
    F: Future<Output = std::result::Result<A, Status>>,
{
    let mut backoff = retry_backoff();
    let mut attempt = 0;
    loop {
        attempt += 1;
        match send().await {
            Ok(_) => return Ok(()),
            Err(status) if status.code() == Code::NotFound => return Ok(()),
            Err(status) if is_transient(&status) && attempt < ATTEMPTS => rest(&mut backoff).await,
            Err(status) => return Err(status),
        }
    }
}

fn place(token: String, request: &Request) -> WorkItemRef {
    let (instance, task) = match request {
        Request::OrchestratorRequest(turn) => (turn.instance_id.clone(), 0),
        Request::ActivityRequest(activity) => {
            let instance = activity.orchestration_instance.as_ref();
            let instance = instance.map(|own| own.instance_id.clone());
            (instance.unwrap_or_default(), activity.task_id)
        }
        Request::EntityRequestV2(batch) => (batch.instance_id.clone(), 0),
        Request::HealthPing(_) | Request::EntityRequest(_) => (String::new(), 0),
    };
    WorkItemRef {
        token,
        instance,
        task,
    }
}

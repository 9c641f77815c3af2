//! Work items over the message size of workers, by gRPC.
//!
//! Workers of the SDKs take messages of 4 MiB. One that is sent more ends its stream.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use steadfast::Node;
use steadfast_wire::durabletask as wire;
use steadfast_wire::durabletask::history_event::EventType;
use steadfast_wire::durabletask::operation_result::ResultType;
use steadfast_wire::durabletask::orchestrator_action::OrchestratorActionType;
use steadfast_wire::durabletask::work_item::Request as Work;

use crate::task_hub::{Caller, action, done, end, node, url};

const FAILED: wire::OrchestrationStatus = wire::OrchestrationStatus::Failed;
const COMPLETED: wire::OrchestrationStatus = wire::OrchestrationStatus::Completed;

/// A worker as SDKs write them: it takes messages of 4 MiB.
#[derive(Clone)]
struct Sdk {
    hub: Caller,
    /// Whether it fetches long histories.
    can_fetch: bool,
    /// Operations of the batches that it was given.
    batches: Arc<Mutex<Vec<usize>>>,
    turns: Arc<AtomicU64>,
}

impl Sdk {
    fn new(node: &Node) -> Self {
        Self {
            hub: Caller::new(node, "durable").strict(),
            can_fetch: false,
            batches: Arc::default(),
            turns: Arc::default(),
        }
    }

    fn fetching(self) -> Self {
        Self {
            can_fetch: true,
            ..self
        }
    }

    /// Works until the test ends. A stream that breaks fails the test.
    fn start(&self) -> tokio::task::JoinHandle<()> {
        let sdk = self.clone();
        tokio::spawn(async move {
            let capabilities = if sdk.can_fetch {
                vec![wire::WorkerCapability::HistoryStreaming.into()]
            } else {
                Vec::new()
            };
            let request = wire::GetWorkItemsRequest {
                capabilities,
                ..wire::GetWorkItemsRequest::default()
            };
            let mut stream = sdk.hub.worker_with(request).await;
            loop {
                let (work, token) = stream.work().await;
                let sdk = sdk.clone();
                tokio::spawn(async move { sdk.run(work, token).await });
            }
        })
    }

    async fn run(&self, work: Work, token: String) {
        match work {
            Work::OrchestratorRequest(turn) => self.turn(turn, token).await,
            Work::ActivityRequest(activity) => {
                let bytes: usize = activity.input.unwrap_or_default().parse().unwrap_or(1);
                let response = wire::ActivityResponse {
                    instance_id: activity.orchestration_instance.unwrap().instance_id,
                    task_id: activity.task_id,
                    result: Some("x".repeat(bytes)),
                    completion_token: token,
                    ..wire::ActivityResponse::default()
                };
                let done = self.hub.tell("CompleteActivityTask", response);
                done.await.unwrap();
            }
            Work::EntityRequestV2(batch) => self.batch(batch, token).await,
            other => panic!("what is {other:?}?"),
        }
    }

    async fn turn(&self, turn: wire::OrchestratorRequest, token: String) {
        self.turns.fetch_add(1, Ordering::Relaxed);
        let mut events = turn.past_events;
        if turn.requires_history_streaming {
            let request = wire::StreamInstanceHistoryRequest {
                instance_id: turn.instance_id.clone(),
                execution_id: turn.execution_id.clone(),
                for_work_item_processing: true,
            };
            let chunks = self.hub.stream("StreamInstanceHistory", request).await;
            let mut chunks: tonic::Streaming<wire::HistoryChunk> = chunks.unwrap();
            while let Some(chunk) = chunks.message().await.unwrap() {
                events.extend(chunk.events);
            }
        }
        events.extend(turn.new_events);
        let actions = orchestrate(&events);
        let result = done(&turn.instance_id, &token, actions);
        let told = self.hub.tell("CompleteOrchestratorTask", result).await;
        told.unwrap();
    }

    /// Every operation adds one to the state, which has the length of its digits and
    /// of the last input that was not empty.
    async fn batch(&self, batch: wire::EntityRequest, token: String) {
        let count = batch.operation_requests.len();
        self.batches.lock().unwrap().push(count);
        let state = batch.entity_state.unwrap_or_default();
        let (number, padding) = state.split_once(' ').unwrap_or(("0", ""));
        let mut number: usize = number.parse().unwrap();
        let mut padding = padding.to_owned();
        let mut results = Vec::new();
        for operation in batch.operation_requests {
            number += 1;
            if let Some(EventType::EntityOperationCalled(call)) = operation.event_type
                && call.operation == "pad"
            {
                padding = "x".repeat(call.input.unwrap().parse().unwrap());
            }
            let success = wire::OperationResultSuccess {
                result: Some(number.to_string()),
                ..wire::OperationResultSuccess::default()
            };
            results.push(wire::OperationResult {
                result_type: Some(ResultType::Success(success)),
            });
        }
        let result = wire::EntityBatchResult {
            results,
            entity_state: Some(format!("{number} {padding}")),
            completion_token: token,
            ..wire::EntityBatchResult::default()
        };
        let told = self.hub.tell("CompleteEntityTask", result).await;
        told.unwrap();
    }
}

/// What an orchestration does, by its name.
fn orchestrate(events: &[wire::HistoryEvent]) -> Vec<wire::OrchestratorAction> {
    let kinds = || events.iter().filter_map(|event| event.event_type.as_ref());
    let count = |is_such: fn(&EventType) -> bool| kinds().filter(|kind| is_such(kind)).count();
    let started = kinds().find_map(|kind| match kind {
        EventType::ExecutionStarted(started) => Some(started),
        _ => None,
    });
    let started = started.unwrap();
    let input = started.input.clone().unwrap_or_default();
    let (number, bytes) = match started.name.as_str() {
        // So many activities, with results of so many bytes.
        "fan" => input.split_once(' ').unwrap(),
        // One activity with an input of so many bytes.
        "long-input" => ("1", input.as_str()),
        // So many events.
        "events" => (input.as_str(), ""),
        // A result of so many bytes.
        "long-result" => return vec![end(&"x".repeat(input.parse().unwrap()))],
        _ => return vec![end(&input.len().to_string())],
    };
    let number: usize = number.parse().unwrap();
    let arrived = count(|kind| {
        let is_done = matches!(kind, EventType::TaskCompleted(_) | EventType::TaskFailed(_));
        is_done || matches!(kind, EventType::EventRaised(_))
    });
    if arrived == number {
        return vec![end(&arrived.to_string())];
    }
    if count(|kind| matches!(kind, EventType::TaskScheduled(_))) > 0 || bytes.is_empty() {
        return Vec::new();
    }
    let input = match started.name.as_str() {
        "fan" => bytes.to_owned(),
        _ => "x".repeat(bytes.parse().unwrap()),
    };
    let schedule = |id: usize| {
        let task = wire::ScheduleTaskAction {
            name: "bytes".into(),
            input: Some(input.clone()),
            ..wire::ScheduleTaskAction::default()
        };
        action(id as i32, OrchestratorActionType::ScheduleTask(task))
    };
    (0..number).map(schedule).collect()
}

async fn start(hub: &Caller, name: &str, instance: &str, input: &str) {
    let request = wire::CreateInstanceRequest {
        instance_id: instance.into(),
        name: name.into(),
        input: Some(input.into()),
        ..wire::CreateInstanceRequest::default()
    };
    let answer: wire::CreateInstanceResponse = hub.call("StartInstance", request).await.unwrap();
    assert_eq!(answer.instance_id, instance);
}

/// How an instance failed.
async fn failure(hub: &Caller, instance: &str) -> String {
    let ended = hub.ended(instance).await;
    assert_eq!(ended.orchestration_status(), FAILED);
    ended.failure_details.unwrap().error_type
}

#[expect(clippy::disallowed_methods, reason = "workers run in real time")]
fn now() -> Instant {
    Instant::now()
}

/// Fifty instances beside something else take as long as without it, about.
async fn neighbours(hub: &Caller) {
    let began = now();
    let all = (0..50).map(|number| async move {
        let name = format!("neighbour {number}");
        start(hub, "quick", &name, "1").await;
        assert_eq!(hub.ended(&name).await.orchestration_status(), COMPLETED);
    });
    join_all(all).await;
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn eight_results_of_700_kb_fail_for_a_worker_that_fetches_no_history_and_hold_up_nothing() {
    let node = node().await;
    let sdk = Sdk::new(&node);
    let worker = sdk.start();
    start(&sdk.hub, "fan", "fan", "8 700000").await;
    neighbours(&sdk.hub).await;
    assert_eq!(failure(&sdk.hub, "fan").await, "HistoryTooLarge");
    // Five fit.
    start(&sdk.hub, "fan", "five", "5 700000").await;
    let ended = sdk.hub.ended("five").await;
    assert_eq!(ended.orchestration_status(), COMPLETED, "{ended:?}");
    assert!(!worker.is_finished(), "its stream has ended");
}

#[tokio::test]
async fn eight_results_of_700_kb_reach_a_worker_that_fetches_histories() {
    let node = node().await;
    let sdk = Sdk::new(&node).fetching();
    let worker = sdk.start();
    start(&sdk.hub, "fan", "fan", "8 700000").await;
    neighbours(&sdk.hub).await;
    let ended = sdk.hub.ended("fan").await;
    assert_eq!(ended.orchestration_status(), COMPLETED, "{ended:?}");
    assert!(!worker.is_finished(), "its stream has ended");
}

#[tokio::test]
async fn events_that_do_not_fit_into_one_message_come_in_several_turns() {
    let node = node().await;
    let sdk = Sdk::new(&node).fetching();
    start(&sdk.hub, "events", "e", "20").await;
    for number in 0..20 {
        let request = wire::RaiseEventRequest {
            instance_id: "e".into(),
            name: format!("event {number}"),
            input: Some("x".repeat(600_000)),
        };
        sdk.hub.tell("RaiseEvent", request).await.unwrap();
    }
    let worker = sdk.start();
    let ended = sdk.hub.ended("e").await;
    assert_eq!(ended.orchestration_status(), COMPLETED, "{ended:?}");
    let turns = sdk.turns.load(Ordering::Relaxed);
    assert!((3..=5).contains(&turns), "{turns} turns");
    assert!(!worker.is_finished(), "its stream has ended");
}

#[tokio::test]
async fn five_hundred_signals_of_10_kb_come_in_several_batches() {
    let node = node().await;
    let sdk = Sdk::new(&node);
    for number in 0..500 {
        let request = wire::SignalEntityRequest {
            instance_id: "@counter@a".into(),
            name: "add".into(),
            input: Some("x".repeat(10_000)),
            request_id: format!("0f8fad5b-d9cb-469f-a165-7086772{number:05x}"),
            ..wire::SignalEntityRequest::default()
        };
        sdk.hub.tell("SignalEntity", request).await.unwrap();
    }
    let worker = sdk.start();
    neighbours(&sdk.hub).await;
    let began = now();
    while state(&sdk.hub).await != "500 " {
        assert!(began.elapsed() < Duration::from_secs(10), "not applied");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let batches = sdk.batches.lock().unwrap().clone();
    assert_eq!(batches.iter().sum::<usize>(), 500);
    assert!(batches.len() <= 4, "{batches:?}");
    assert!(!worker.is_finished(), "its stream has ended");
}

async fn state(hub: &Caller) -> String {
    let request = wire::GetEntityRequest {
        instance_id: "@counter@a".into(),
        include_state: true,
    };
    let found: wire::GetEntityResponse = hub.call("GetEntity", request).await.unwrap();
    let entity = found.entity.unwrap_or_default();
    entity.serialized_state.unwrap_or_default()
}

#[tokio::test]
async fn an_input_of_5_mb_by_rest_fails_its_instance_and_nothing_else() {
    let node = node().await;
    let sdk = Sdk::new(&node);
    let worker = sdk.start();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let base = url(&node, "http");
    let path = "runtime/webhooks/durabletask/orchestrators/echo/long";
    let answer = reqwest::Client::new()
        .post(format!("{base}/{path}"))
        .bearer_auth("SAS_KEY_VALUE")
        .header("content-type", "application/json")
        .body(format!("\"{}\"", "x".repeat(5_000_000)))
        .send();
    assert_eq!(answer.await.unwrap().status().as_u16(), 202);
    neighbours(&sdk.hub).await;
    let client = Caller::new(&node, "durable");
    assert_eq!(failure(&client, "long").await, "HistoryTooLarge");
    assert!(!worker.is_finished(), "its stream has ended");
}

#[tokio::test]
async fn an_activity_with_an_input_of_5_mb_fails_and_holds_up_nothing() {
    let node = node().await;
    let sdk = Sdk::new(&node);
    let worker = sdk.start();
    start(&sdk.hub, "long-input", "l", "5000000").await;
    neighbours(&sdk.hub).await;
    // The input is in the history as well, which no turn can bring.
    assert_eq!(failure(&sdk.hub, "l").await, "HistoryTooLarge");
    let request = wire::StreamInstanceHistoryRequest {
        instance_id: "l".into(),
        ..wire::StreamInstanceHistoryRequest::default()
    };
    let client = Caller::new(&node, "durable");
    let chunks = client.stream("StreamInstanceHistory", request).await;
    let mut chunks: tonic::Streaming<wire::HistoryChunk> = chunks.unwrap();
    let mut failures = Vec::new();
    while let Some(chunk) = chunks.message().await.unwrap() {
        for event in chunk.events {
            if let Some(EventType::TaskFailed(failed)) = event.event_type {
                failures.push(failed.failure_details.unwrap().error_type);
            }
        }
    }
    assert_eq!(failures, ["WorkItemTooLarge"]);
    assert!(!worker.is_finished(), "its stream has ended");
}

/// A call of the entity; its answer, or how it failed.
async fn call(hub: &Caller, name: &str, input: String) -> Result<String, String> {
    let request = wire::SignalEntityRequest {
        instance_id: "@counter@a".into(),
        name: name.into(),
        input: Some(input),
        ..wire::SignalEntityRequest::default()
    };
    let answer: wire::CallEntityResponse = hub.call("CallEntity", request).await.unwrap();
    match answer.failure_details {
        Some(failure) => Err(failure.error_type),
        None => Ok(answer.output.unwrap()),
    }
}

#[tokio::test]
async fn an_operation_that_does_not_fit_beside_the_state_fails_alone() {
    let node = node().await;
    let sdk = Sdk::new(&node);
    let worker = sdk.start();
    let padded = call(&sdk.hub, "pad", "3000000".into()).await;
    assert_eq!(padded.as_deref(), Ok("1"));
    let inputs = [10, 2_000_000, 20, 30].map(|bytes| "x".repeat(bytes));
    let calls = inputs.map(|input| call(&sdk.hub, "add", input));
    let answers = join_all(calls).await;
    let failed: Vec<_> = answers.iter().map(|answer| answer.is_err()).collect();
    assert_eq!(failed, [false, true, false, false], "{answers:?}");
    assert_eq!(answers[1], Err("WorkItemTooLarge".into()));
    // A state that does not fit at all fails whatever comes.
    assert_eq!(
        call(&sdk.hub, "pad", "5000000".into()).await.as_deref(),
        Ok("5")
    );
    let calls = (0..20).map(|_| call(&sdk.hub, "add", "1".into()));
    for answer in join_all(calls).await {
        assert_eq!(answer, Err("WorkItemTooLarge".into()));
    }
    neighbours(&sdk.hub).await;
    assert!(!worker.is_finished(), "its stream has ended");
}

#[tokio::test]
async fn a_worker_that_says_so_gets_longer_messages() {
    let node = node().await;
    let client = Caller::new(&node, "durable");
    let sdk = Sdk {
        hub: client
            .clone()
            .with("maxmessagebytes", (64 << 20).to_string()),
        ..Sdk::new(&node)
    };
    let _worker = sdk.start();
    start(&client, "echo", "long", &"x".repeat(5_000_000)).await;
    let ended = client.ended("long").await;
    assert_eq!(ended.output.as_deref(), Some("5000000"));
    let refused = client.with("maxmessagebytes", "many");
    let refused = refused.start("echo", "i").await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::InvalidArgument);
}

#[tokio::test]
async fn a_result_over_the_limit_fails_its_instance_by_the_documented_name() {
    let node = node().await;
    let sdk = Sdk::new(&node);
    let _worker = sdk.start();
    start(&sdk.hub, "long-result", "too long", "7000000").await;
    assert_eq!(failure(&sdk.hub, "too long").await, "TurnTooLarge");
}

#[tokio::test]
async fn an_input_over_the_limit_is_refused_with_a_lasting_code() {
    let node = node().await;
    let hub = Caller::new(&node, "durable");
    let mut codes = BTreeMap::new();
    for mib in [6, 11, 16, 20] {
        let request = wire::CreateInstanceRequest {
            instance_id: format!("i{mib}"),
            name: "echo".into(),
            input: Some("x".repeat(mib << 20)),
            ..wire::CreateInstanceRequest::default()
        };
        let answer = hub.call::<_, wire::CreateInstanceResponse>("StartInstance", request);
        let code = answer
            .await
            .map_or_else(|status| status.code(), |_| tonic::Code::Ok);
        codes.insert(mib, code);
    }
    let refused = tonic::Code::InvalidArgument;
    let expected = [
        (6, tonic::Code::Ok),
        (11, refused),
        (16, refused),
        (20, refused),
    ];
    assert_eq!(codes, BTreeMap::from(expected));
}

//! Durable Task: gRPC, events in JSON, and REST.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::Method;
use http_body_util::BodyExt as _;
use prost::Message;
use steadfast_core::clock::Clock;
use steadfast_durable::{DeliveryOptions, Dispatcher, Instances, TaskHubs, TaskServiceCounts};
use steadfast_durabletask::{Context, METHODS, rest, routes};
use steadfast_partition::{Router, Services, SingleNode};
use steadfast_wire::durabletask as wire;
use steadfast_wire::durabletask::work_item::Request as WorkRequest;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::http::{self, Web};
use crate::node::MemoryNode;
use crate::records;
use crate::session::{MemoryBound, Session};
use crate::time::{PausedClock, settle};

/// Every message with all its fields, by its name.
const GOLDEN: &str = include_str!("../../wire/tests/golden/durabletask.txt");

/// The paths of the gRPC service.
const SERVICE: &str = "/TaskHubSidecarService/";

/// A record with this bit in its second byte completes the last received work item.
const COMPLETES: u8 = 1;

/// A task hub in memory.
struct MemoryTaskHub {
    context: Arc<Context>,
    clock: Arc<dyn Clock>,
    _node: MemoryNode,
}

impl MemoryTaskHub {
    async fn start() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(PausedClock::new());
        let router = Arc::new(Router::new(Arc::new(SingleNode)));
        let dispatcher = Dispatcher::new(
            Arc::clone(&router),
            Arc::clone(&clock),
            DeliveryOptions::default(),
        );
        let services = Services::new().with(Instances);
        let performer = Arc::new(dispatcher.clone());
        let node = MemoryNode::start(services, performer, router, Arc::clone(&clock)).await;
        let context = Context {
            hubs: TaskHubs::new(&node.runtime, dispatcher, BTreeMap::new()),
            access: None,
            clock: Arc::clone(&clock),
            leaving: CancellationToken::new(),
            counts: Arc::new(TaskServiceCounts::default()),
        };
        Self {
            context: Arc::new(context),
            clock,
            _node: node,
        }
    }
}

/// Starts an instance, and reads it again.
async fn answers(web: &Web) {
    let start = wire::CreateInstanceRequest {
        instance_id: "good".to_owned(),
        name: "Good".to_owned(),
        ..wire::CreateInstanceRequest::default()
    };
    let ask = async |method: &str, message: Vec<u8>| {
        let request = http::grpc(&format!("{SERVICE}{method}"), &message);
        web.ask(request).await.expect("an answer")
    };
    // If the input has started it, this is refused.
    ask("StartInstance", start.encode_to_vec()).await;
    let found = ask("GetInstance", instance("good").encode_to_vec()).await;
    // An error of gRPC has the status of success and no message.
    let message = found.body.get(5..).expect("a message");
    let found = wire::GetInstanceResponse::decode(message).expect("an instance");
    assert!(found.exists, "the instance that was started is there");
}

fn instance(id: &str) -> wire::GetInstanceRequest {
    wire::GetInstanceRequest {
        instance_id: id.to_owned(),
        ..wire::GetInstanceRequest::default()
    }
}

/// gRPC requests of clients and of workers.
pub(crate) struct Grpc {
    web: Web,
    work: mpsc::UnboundedReceiver<wire::WorkItem>,
    last: Option<wire::WorkItem>,
    _hub: MemoryTaskHub,
}

impl Session for Grpc {
    const NAME: &'static str = "durable-grpc";

    const BOUND: MemoryBound = MemoryBound {
        least: 384 * 1024,
        per_byte: 64,
    };

    async fn start() -> Self {
        let hub = MemoryTaskHub::start().await;
        let web = Web::new(routes(Arc::clone(&hub.context)), &hub.clock);
        let work = listen(&web).await;
        Self {
            web,
            work,
            last: None,
            _hub: hub,
        }
    }

    async fn take(&mut self, input: &[u8]) {
        for record in records::split(input) {
            let [method, flags, message @ ..] = record else {
                continue;
            };
            let (name, _) = METHODS[usize::from(*method) % METHODS.len()];
            while let Ok(item) = self.work.try_recv() {
                self.last = Some(item);
            }
            let completed = match (&self.last, flags & COMPLETES) {
                (Some(item), COMPLETES) => complete(item, name, message),
                _ => None,
            };
            let message = completed.as_deref().unwrap_or(message);
            let request = http::grpc(&format!("{SERVICE}{name}"), message);
            self.web.ask(request).await;
            settle().await;
        }
    }

    async fn answers(&mut self) {
        answers(&self.web).await;
    }

    fn seeds() -> Vec<Vec<u8>> {
        grpc_seeds()
    }
}

/// Receives work items as a worker does.
async fn listen(web: &Web) -> mpsc::UnboundedReceiver<wire::WorkItem> {
    let wanted = wire::GetWorkItemsRequest {
        max_concurrent_orchestration_work_items: 10,
        max_concurrent_activity_work_items: 10,
        max_concurrent_entity_work_items: 10,
        ..wire::GetWorkItemsRequest::default()
    };
    let request = http::grpc(&format!("{SERVICE}GetWorkItems"), &wanted.encode_to_vec());
    let response = web.send(request).await.expect("work is offered");
    let mut body = response.into_body();
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut rest = Vec::new();
        while let Some(Ok(frame)) = body.frame().await {
            rest.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
            while let Some((item, length)) = first(&rest) {
                rest.drain(..length);
                if sender.send(item).is_err() {
                    return;
                }
            }
        }
    });
    receiver
}

/// The first message of a stream, and its length.
fn first(bytes: &[u8]) -> Option<(wire::WorkItem, usize)> {
    let (head, rest) = bytes.split_first_chunk::<5>()?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    let message = rest.get(..length)?;
    Some((wire::WorkItem::decode(message).ok()?, length + 5))
}

/// A result with the token of a work item that was really sent.
fn complete(item: &wire::WorkItem, method: &str, message: &[u8]) -> Option<Vec<u8>> {
    let token = item.completion_token.clone();
    Some(match (method, item.request.as_ref()?) {
        ("CompleteOrchestratorTask", WorkRequest::OrchestratorRequest(work)) => {
            let mut result = wire::OrchestratorResponse::decode(message).ok()?;
            result.instance_id.clone_from(&work.instance_id);
            result.completion_token = token;
            result.encode_to_vec()
        }
        ("CompleteActivityTask", WorkRequest::ActivityRequest(work)) => {
            let mut result = wire::ActivityResponse::decode(message).ok()?;
            let instance = work.orchestration_instance.clone().unwrap_or_default();
            result.instance_id = instance.instance_id;
            result.task_id = work.task_id;
            result.completion_token = token;
            result.encode_to_vec()
        }
        ("CompleteEntityTask", WorkRequest::EntityRequestV2(_)) => {
            let mut result = wire::EntityBatchResult::decode(message).ok()?;
            result.completion_token = token;
            result.encode_to_vec()
        }
        (
            "AbandonTaskOrchestratorWorkItem"
            | "AbandonTaskActivityWorkItem"
            | "AbandonTaskEntityWorkItem",
            _,
        ) => wire::AbandonOrchestrationTaskRequest {
            completion_token: token,
        }
        .encode_to_vec(),
        _ => return None,
    })
}

/// The message of each method.
const MESSAGES: [(&str, &str); 27] = [
    ("StartInstance", "CreateInstanceRequest"),
    ("GetInstance", "GetInstanceRequest"),
    ("WaitForInstanceStart", "GetInstanceRequest"),
    ("WaitForInstanceCompletion", "GetInstanceRequest"),
    ("QueryInstances", "QueryInstancesRequest"),
    ("ListInstanceIds", "ListInstanceIdsRequest"),
    ("StreamInstanceHistory", "StreamInstanceHistoryRequest"),
    ("GetEntity", "GetEntityRequest"),
    ("QueryEntities", "QueryEntitiesRequest"),
    ("GetWorkItems", "GetWorkItemsRequest"),
    ("CompleteOrchestratorTask", "OrchestratorResponse"),
    ("CompleteActivityTask", "ActivityResponse"),
    ("CompleteEntityTask", "EntityBatchResult"),
    ("AbandonTaskActivityWorkItem", "AbandonActivityTaskRequest"),
    ("RaiseEvent", "RaiseEventRequest"),
    ("SignalEntity", "SignalEntityRequest"),
    ("CallEntity", "SignalEntityRequest"),
    ("TerminateInstance", "TerminateRequest"),
    ("SuspendInstance", "SuspendRequest"),
    ("ResumeInstance", "ResumeRequest"),
    ("RewindInstance", "RewindInstanceRequest"),
    ("RestartInstance", "RestartInstanceRequest"),
    ("PurgeInstances", "PurgeInstancesRequest"),
    ("CleanEntityStorage", "CleanEntityStorageRequest"),
    ("CreateTaskHub", "CreateTaskHubRequest"),
    ("DeleteTaskHub", "DeleteTaskHubRequest"),
    (
        "SkipGracefulOrchestrationTerminations",
        "SkipGracefulOrchestrationTerminationsRequest",
    ),
];

fn grpc_record(method: &str, flags: u8, message: &[u8]) -> Vec<u8> {
    let place = METHODS.iter().position(|(name, _)| *name == method);
    let method = place.expect("a method of the service") as u8;
    [&[method, flags][..], message].concat()
}

/// The golden bytes of messages, by name and alternative.
fn golden() -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    GOLDEN.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (name, hex) = (words.next()?, words.nth(1)?);
        let digits = hex.as_bytes().chunks_exact(2);
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        Some((name, digits.map(byte).collect::<Option<_>>()?))
    })
}

fn grpc_seeds() -> Vec<Vec<u8>> {
    let start = wire::CreateInstanceRequest {
        instance_id: "one".to_owned(),
        name: "One".to_owned(),
        input: Some("[1]".to_owned()),
        ..wire::CreateInstanceRequest::default()
    };
    let start = grpc_record("StartInstance", 0, &start.encode_to_vec());
    let mut seeds = Vec::new();
    for (method, message) in MESSAGES {
        for (_, bytes) in golden().filter(|(name, _)| *name == message) {
            let record = grpc_record(method, COMPLETES, &bytes);
            seeds.push(records::join(&[start.clone(), record.clone()]));
            seeds.push(record);
        }
    }
    // Each action by itself, so that a turn with it is accepted.
    for (_, bytes) in golden().filter(|(name, _)| *name == "OrchestratorAction") {
        let Ok(action) = wire::OrchestratorAction::decode(&bytes[..]) else {
            continue;
        };
        seeds.push(turn(&start, action));
    }
    for (name, data) in LEGACY {
        let event = wire::SendEventAction {
            instance: Some(wire::OrchestrationInstance {
                instance_id: "@counter@a".to_owned(),
                ..wire::OrchestrationInstance::default()
            }),
            name: (*name).to_owned(),
            data: Some((*data).to_owned()),
        };
        let action = wire::OrchestratorAction {
            id: 1,
            orchestrator_action_type: Some(
                wire::orchestrator_action::OrchestratorActionType::SendEvent(event),
            ),
        };
        let batch = golden().find(|(name, _)| *name == "EntityBatchResult");
        let batch = batch.map(|(_, bytes)| bytes).unwrap_or_default();
        let result = grpc_record("CompleteEntityTask", COMPLETES, &batch);
        seeds.push(records::join(&[turn(&start, action), result]));
        let raise = wire::RaiseEventRequest {
            instance_id: "@counter@a".to_owned(),
            name: (*name).to_owned(),
            input: Some((*data).to_owned()),
        };
        seeds.push(grpc_record("RaiseEvent", 0, &raise.encode_to_vec()));
    }
    seeds
}

/// An instance, and a turn of it with one action.
fn turn(start: &[u8], action: wire::OrchestratorAction) -> Vec<u8> {
    let response = wire::OrchestratorResponse {
        actions: vec![action],
        ..wire::OrchestratorResponse::default()
    };
    let response = grpc_record(
        "CompleteOrchestratorTask",
        COMPLETES,
        &response.encode_to_vec(),
    );
    records::join(&[start.to_vec(), response])
}

/// Messages to entities that are written as events.
const LEGACY: &[(&str, &str)] = &[
    (
        "op",
        r#"{"op":"add","signal":true,"input":"5","id":"3f2a"}"#,
    ),
    (
        "op",
        r#"{"op":"get","id":"3f2b","parent":"one","parentExecution":"x"}"#,
    ),
    (
        "op@2030-01-01T00:00:00Z",
        r#"{"op":"add","signal":true,"id":"3f2c","due":"2030-01-01T00:00:00.0000000Z"}"#,
    ),
    (
        "op",
        r#"{"id":"3f2d","parent":"one","lockset":[{"name":"counter","key":"a"},{"name":"counter","key":"b"}],"pos":0}"#,
    ),
    ("release", r#"{"parent":"one","id":"3f2d"}"#),
];

/// Requests of the REST API.
pub(crate) struct Rest {
    web: Web,
    _hub: MemoryTaskHub,
}

impl Session for Rest {
    const NAME: &'static str = "durable-rest";

    const BOUND: MemoryBound = MemoryBound {
        least: 384 * 1024,
        per_byte: 64,
    };

    async fn start() -> Self {
        let hub = MemoryTaskHub::start().await;
        let rest = rest::routes(Arc::clone(&hub.context), "http");
        let both = rest.merge(routes(Arc::clone(&hub.context)));
        Self {
            web: Web::new(both, &hub.clock),
            _hub: hub,
        }
    }

    async fn take(&mut self, input: &[u8]) {
        for record in records::split(input) {
            let below = |line: &str| format!("/runtime/webhooks/durabletask/{line}");
            if let Some(request) = http::request(record, below) {
                self.web.ask(request).await;
                settle().await;
            }
        }
    }

    async fn answers(&mut self) {
        answers(&self.web).await;
    }

    fn seeds() -> Vec<Vec<u8>> {
        rest_seeds()
    }
}

fn rest_seeds() -> Vec<Vec<u8>> {
    let post = |line: &str, body: &str| http::record(&Method::POST, line, body);
    let get = |line: &str| http::record(&Method::GET, line, "");
    let delete = |line: &str| http::record(&Method::DELETE, line, "");
    let start = post("orchestrators/One/one", "{\"a\":[1]}");
    let after = [
        get("instances/one?showHistory=true&showHistoryOutput=true&showInput=false"),
        get("instances?runtimeStatus=Pending,Running&createdTimeFrom=2020-01-01T00:00:00Z&top=5"),
        post("instances/one/raiseEvent/go", "{\"x\":1}"),
        post("instances/one/terminate?reason=enough", ""),
        post("instances/one/suspend?reason=wait", ""),
        post("instances/one/resume?reason=go", ""),
        post("instances/one/rewind?reason=again", ""),
        post("instances/one/restart?restartWithNewInstanceId=true", ""),
        get("instances/one/why"),
        delete("instances/one"),
        delete("instances?createdTimeFrom=2020-01-01T00:00:00Z&runtimeStatus=Completed"),
        get("locks"),
        delete("locks/counter/a"),
        post("entities/counter/a?op=add", "5"),
        get("entities/counter/a"),
        get("entities?fetchState=true&lastOperationTimeFrom=2020-01-01T00:00:00Z&top=3"),
        post("entities/counter/a/call?op=get&timeout=5", "null"),
        delete("entities/counter/a"),
    ];
    let mut seeds: Vec<_> = after
        .iter()
        .map(|record| records::join(&[start.clone(), record.clone()]))
        .collect();
    seeds.push(records::join(&after));
    seeds
}

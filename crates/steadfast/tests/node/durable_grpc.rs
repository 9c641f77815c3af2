//! The gRPC service of task hubs, by a bare client.

use std::time::Duration;

use steadfast_wire::durabletask as wire;
use steadfast_wire::durabletask::completed_task::Result as Completed;
use steadfast_wire::durabletask::history_event::EventType;
use steadfast_wire::durabletask::orchestrator_action::OrchestratorActionType;
use steadfast_wire::durabletask::work_item::Request as Work;
use tonic::Code;

use crate::task_hub::{self, Caller, PATIENCE, action, done, end, node};

fn schedule(id: i32) -> wire::OrchestratorAction {
    let task = wire::ScheduleTaskAction {
        name: "add".into(),
        version: Some("2".into()),
        input: Some(String::new()),
        tags: [("colour".into(), "red".into())].into(),
        parent_trace_context: Some(wire::TraceContext {
            trace_parent: "00-1-2-01".into(),
            ..wire::TraceContext::default()
        }),
    };
    action(id, OrchestratorActionType::ScheduleTask(task))
}

#[tokio::test]
async fn durable_01_a_stream_begins_with_a_ping_on_both_ports() {
    let node = node().await;
    for port in ["durable", "http"] {
        let mut worker = Caller::new(&node, port).worker().await;
        let first = tokio::time::timeout(Duration::from_secs(10), worker.message()).await;
        let first = first.unwrap().unwrap().unwrap();
        assert!(matches!(first.request, Some(Work::HealthPing(_))));
    }
}

#[tokio::test]
async fn durable_02_a_silence_ends_after_30_seconds() {
    let node = node().await;
    let mut worker = Caller::new(&node, "durable").worker().await;
    worker.message().await.unwrap();
    let began = tokio::time::Instant::now();
    let second = worker.message_within(Duration::from_secs(45)).await;
    let second = second.unwrap().unwrap();
    assert!(matches!(second.request, Some(Work::HealthPing(_))));
    let silence = began.elapsed();
    assert!(silence > Duration::from_secs(20), "{silence:?}");
}

#[tokio::test]
async fn durable_03_a_leaving_node_takes_results_and_ends_streams_with_ok() {
    let node = node().await;
    let hub = Caller::new(&node, "durable");
    hub.start("f", "last").await.unwrap();
    let mut worker = hub.worker().await;
    let (_, token) = worker.turn().await;
    let waiting = {
        let hub = hub.clone();
        let request = wire::GetInstanceRequest {
            instance_id: "absent".into(),
            get_inputs_and_outputs: false,
        };
        let method = "WaitForInstanceCompletion";
        tokio::spawn(async move {
            hub.call::<_, wire::GetInstanceResponse>(method, request)
                .await
        })
    };
    let leaving = tokio::spawn({
        let node = node.clone();
        async move { node.drain(PATIENCE).await }
    });
    let refused = waiting.await.unwrap().unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    // The result of what was out still counts.
    let result = done("last", &token, vec![end("7")]);
    hub.tell("CompleteOrchestratorTask", result).await.unwrap();
    loop {
        match worker.message().await {
            Ok(Some(ping)) => assert!(matches!(ping.request, Some(Work::HealthPing(_)))),
            Ok(None) => break,
            Err(status) => panic!("not with OK: {status}"),
        }
    }
    assert_eq!(leaving.await.unwrap().lost, 0);
}

#[tokio::test]
async fn durable_04_metadata_names_the_task_hub() {
    let node = node().await;
    let (plain, blue) = (Caller::new(&node, "durable"), Caller::new(&node, "durable"));
    let blue = blue.with("taskhub", "blue");
    let default = Caller::new(&node, "durable").with("taskhub", "default");
    blue.start("f", "same").await.unwrap();
    assert!(plain.get("same").await.is_none());
    plain.start("g", "same").await.unwrap();
    assert_eq!(blue.get("same").await.unwrap().name, "f");
    assert_eq!(default.get("same").await.unwrap().name, "g");
    let bad = Caller::new(&node, "durable").with("taskhub", "no/name");
    assert_eq!(
        bad.start("f", "x").await.unwrap_err().code(),
        Code::InvalidArgument
    );
}

#[tokio::test]
async fn durable_05_unknown_tokens_change_nothing() {
    let node = node().await;
    let hub = Caller::new(&node, "durable");
    hub.start("f", "a").await.unwrap();
    let mut worker = hub.worker().await;
    let (_, token) = worker.turn().await;
    for unknown in ["nonsense", "1", "00000000"] {
        let result = done("a", unknown, vec![end("0")]);
        hub.tell("CompleteOrchestratorTask", result).await.unwrap();
        let result = wire::ActivityResponse {
            instance_id: "a".into(),
            completion_token: unknown.into(),
            ..wire::ActivityResponse::default()
        };
        hub.tell("CompleteActivityTask", result).await.unwrap();
        let result = wire::EntityBatchResult {
            completion_token: unknown.into(),
            ..wire::EntityBatchResult::default()
        };
        hub.tell("CompleteEntityTask", result).await.unwrap();
        for sort in ["Orchestrator", "Activity", "Entity"] {
            let request = wire::AbandonOrchestrationTaskRequest {
                completion_token: unknown.into(),
            };
            hub.tell(&format!("AbandonTask{sort}WorkItem"), request)
                .await
                .unwrap();
        }
    }
    let result = done("a", &token, vec![end("7")]);
    hub.tell("CompleteOrchestratorTask", result.clone())
        .await
        .unwrap();
    assert_eq!(hub.ended("a").await.output.as_deref(), Some("7"));
    // The same again, as after a lost answer.
    hub.tell("CompleteOrchestratorTask", result).await.unwrap();
    assert_eq!(hub.ended("a").await.output.as_deref(), Some("7"));
}

#[tokio::test]
async fn durable_06_results_without_tokens_find_their_work() {
    let node = node().await;
    let hub = Caller::new(&node, "durable");
    hub.start("f", "go").await.unwrap();
    let mut worker = hub.worker().await;
    worker.turn().await;
    let result = done("go", "", vec![schedule(0)]);
    hub.tell("CompleteOrchestratorTask", result).await.unwrap();
    let (activity, _) = worker.activity().await;
    assert_eq!(activity.task_id, 0);
    let result = wire::ActivityResponse {
        instance_id: "go".into(),
        task_id: 0,
        result: Some(String::new()),
        ..wire::ActivityResponse::default()
    };
    hub.tell("CompleteActivityTask", result).await.unwrap();
    let (turn, _) = worker.turn().await;
    let Some(EventType::TaskCompleted(completed)) = &turn.new_events[1].event_type else {
        panic!("{turn:?}");
    };
    // Empty is not absent.
    assert_eq!(completed.result.as_deref(), Some(""));
    let result = done("go", "", vec![end("7")]);
    hub.tell("CompleteOrchestratorTask", result).await.unwrap();
    assert_eq!(hub.ended("go").await.output.as_deref(), Some("7"));
}

#[tokio::test]
async fn durable_07_parts_of_a_result_count_with_the_last_one() {
    let node = node().await;
    let hub = Caller::new(&node, "durable");
    hub.start("f", "parts").await.unwrap();
    let mut worker = hub.worker().await;
    let (_, token) = worker.turn().await;
    let part = |index: i32, is_partial: bool, actions| wire::OrchestratorResponse {
        is_partial,
        chunk_index: Some(index),
        num_events_processed: Some(0).filter(|_| index > 0),
        ..done("parts", &token, actions)
    };
    let complete = "CompleteOrchestratorTask";
    hub.tell(complete, part(1, true, vec![schedule(1)]))
        .await
        .unwrap();
    hub.tell(complete, part(0, true, vec![schedule(9)]))
        .await
        .unwrap();
    // A part that comes again replaces the first.
    hub.tell(complete, part(0, true, vec![schedule(0)]))
        .await
        .unwrap();
    let status = hub.get("parts").await.unwrap().orchestration_status();
    assert_eq!(status, wire::OrchestrationStatus::Pending);
    hub.tell(complete, part(2, false, vec![schedule(2)]))
        .await
        .unwrap();
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(worker.activity().await.0.task_id);
    }
    ids.sort_unstable();
    assert_eq!(ids, [0, 1, 2]);
    let no_place = wire::OrchestratorResponse {
        is_partial: true,
        ..done("parts", &token, Vec::new())
    };
    let refused = hub.tell(complete, no_place).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn durable_34_tags_version_and_trace_reach_their_work() {
    let node = node().await;
    let hub = Caller::new(&node, "durable");
    let trace = wire::TraceContext {
        trace_parent: "00-a-b-01".into(),
        span_id: "b".into(),
        trace_state: Some("x=y".into()),
    };
    let request = wire::CreateInstanceRequest {
        instance_id: "traced".into(),
        name: "f".into(),
        version: Some("1.2".into()),
        input: Some(String::new()),
        tags: [("colour".into(), "blue".into())].into(),
        parent_trace_context: Some(trace.clone()),
        ..wire::CreateInstanceRequest::default()
    };
    hub.call::<_, wire::CreateInstanceResponse>("StartInstance", request)
        .await
        .unwrap();
    let mut worker = hub.worker().await;
    let (turn, token) = worker.turn().await;
    assert_eq!(turn.past_events, []);
    let parameters = turn.entity_parameters.unwrap();
    let window = parameters.entity_message_reorder_window;
    assert_eq!(window, Some(wire::well_known::Duration::default()));
    for event in &turn.new_events {
        assert!(event.timestamp.is_some(), "{event:?}");
        assert_eq!(event.event_id, -1);
    }
    let Some(EventType::ExecutionStarted(started)) = &turn.new_events[1].event_type else {
        panic!("{turn:?}");
    };
    assert_eq!(started.version.as_deref(), Some("1.2"));
    assert_eq!(started.input.as_deref(), Some(""));
    assert_eq!(started.tags["colour"], "blue");
    assert_eq!(started.parent_trace_context.as_ref(), Some(&trace));
    assert_eq!(started.parent_instance, None);
    let span = wire::OrchestrationTraceContext {
        span_id: Some("c".into()),
        span_start_time: Some(wire::well_known::Timestamp {
            seconds: 7,
            nanos: 123_456_789,
        }),
    };
    let result = wire::OrchestratorResponse {
        orchestration_trace_context: Some(span.clone()),
        ..done("traced", &token, vec![schedule(0)])
    };
    hub.tell("CompleteOrchestratorTask", result).await.unwrap();
    let (activity, token) = worker.activity().await;
    assert_eq!(activity.version.as_deref(), Some("2"));
    assert_eq!(activity.tags["colour"], "red");
    assert_eq!(
        activity.parent_trace_context.unwrap().trace_parent,
        "00-1-2-01"
    );
    let instance = activity.orchestration_instance.unwrap();
    assert_eq!(instance.execution_id, turn.execution_id);
    let result = wire::ActivityResponse {
        instance_id: instance.instance_id,
        completion_token: token,
        ..wire::ActivityResponse::default()
    };
    hub.tell("CompleteActivityTask", result).await.unwrap();
    let (turn, _) = worker.turn().await;
    assert_eq!(turn.orchestration_trace_context, Some(span));
    let state = hub.get("traced").await.unwrap();
    assert_eq!(
        (state.tags["colour"].as_str(), state.version.as_deref()),
        ("blue", Some("1.2"))
    );
}

#[tokio::test]
async fn durable_38_abandoned_work_comes_again_later() {
    let node = node().await;
    let hub = Caller::new(&node, "durable");
    hub.start("f", "back").await.unwrap();
    let mut worker = hub.worker().await;
    let (_, first) = worker.turn().await;
    let began = tokio::time::Instant::now();
    let request = wire::AbandonOrchestrationTaskRequest {
        completion_token: first.clone(),
    };
    hub.tell("AbandonTaskOrchestratorWorkItem", request)
        .await
        .unwrap();
    let (_, second) = worker.turn().await;
    assert!(began.elapsed() >= Duration::from_millis(100));
    assert_ne!(first, second);
    hub.tell(
        "CompleteOrchestratorTask",
        done("back", &first, vec![end("0")]),
    )
    .await
    .unwrap();
    hub.tell(
        "CompleteOrchestratorTask",
        done("back", &second, vec![end("7")]),
    )
    .await
    .unwrap();
    assert_eq!(hub.ended("back").await.output.as_deref(), Some("7"));
}

#[tokio::test]
async fn long_histories_are_fetched_by_workers_that_can() {
    let node = node().await;
    let hub = Caller::new(&node, "durable");
    let plain = wire::GetWorkItemsRequest::default();
    let fetching = wire::GetWorkItemsRequest {
        capabilities: vec![wire::WorkerCapability::HistoryStreaming.into()],
        ..wire::GetWorkItemsRequest::default()
    };
    hub.start("f", "long").await.unwrap();
    for number in 0..6 {
        let request = wire::RaiseEventRequest {
            instance_id: "long".into(),
            name: format!("event {number}"),
            input: Some("x".repeat(300_000)),
        };
        hub.tell("RaiseEvent", request).await.unwrap();
        let mut worker = hub.worker_with(plain.clone()).await;
        let (turn, token) = worker.turn().await;
        assert!(!turn.requires_history_streaming);
        hub.tell("CompleteOrchestratorTask", done("long", &token, Vec::new()))
            .await
            .unwrap();
    }
    let request = wire::RaiseEventRequest {
        instance_id: "long".into(),
        name: "last".into(),
        input: None,
    };
    hub.tell("RaiseEvent", request).await.unwrap();
    let mut worker = hub.worker_with(fetching.clone()).await;
    let (turn, _) = worker.turn().await;
    assert!(turn.requires_history_streaming && turn.past_events.is_empty());
    let request = wire::StreamInstanceHistoryRequest {
        instance_id: "long".into(),
        execution_id: turn.execution_id,
        for_work_item_processing: true,
    };
    let mut chunks = hub
        .stream::<_, wire::HistoryChunk>("StreamInstanceHistory", request)
        .await
        .unwrap();
    let mut raised = Vec::new();
    while let Some(chunk) = chunks.message().await.unwrap() {
        assert!(prost::Message::encoded_len(&chunk) <= 512 * 1024);
        for event in chunk.events {
            if let Some(EventType::EventRaised(event)) = event.event_type {
                raised.push(event.name);
            }
        }
    }
    let wanted: Vec<_> = (0..6).map(|number| format!("event {number}")).collect();
    assert_eq!(raised, wanted);
    // So does one that ought to remember it and does not.
    drop(worker);
    let mut mindful = fetching;
    mindful
        .capabilities
        .push(wire::WorkerCapability::RememberedHistory.into());
    let mut worker = hub.worker_with(mindful).await;
    let (_, token) = worker.turn().await;
    let mut forgotten = done("long", &token, Vec::new());
    forgotten.requires_history = true;
    hub.tell("CompleteOrchestratorTask", forgotten)
        .await
        .unwrap();
    let (turn, _) = worker.turn().await;
    assert!(turn.requires_history_streaming && turn.past_events.is_empty());
    // A worker that cannot fetch it gets it with the item.
    drop(worker);
    let mut worker = hub.worker_with(plain).await;
    let (turn, _) = worker.turn().await;
    assert!(!turn.requires_history_streaming && turn.past_events.len() > 12);
}

#[tokio::test]
async fn what_cannot_be_done_fails_the_instance() {
    let node = node().await;
    let hub = Caller::new(&node, "durable");
    let mut worker = hub.worker().await;
    let early = wire::CreateTimerAction {
        fire_at: Some(wire::well_known::Timestamp {
            seconds: i64::MAX,
            nanos: 0,
        }),
    };
    let actions = [
        action(0, OrchestratorActionType::CreateTimer(early)),
        wire::OrchestratorAction::default(),
        action(
            0,
            OrchestratorActionType::SendEvent(wire::SendEventAction::default()),
        ),
    ];
    for (number, bad) in actions.into_iter().enumerate() {
        let instance = hub.start("f", &format!("bad {number}")).await.unwrap();
        let (_, token) = worker.turn().await;
        hub.tell(
            "CompleteOrchestratorTask",
            done(&instance, &token, vec![bad]),
        )
        .await
        .unwrap();
        let state = hub.ended(&instance).await;
        assert_eq!(
            state.orchestration_status(),
            wire::OrchestrationStatus::Failed
        );
        assert_eq!(state.failure_details.unwrap().error_type, "InvalidAction");
    }
}

#[tokio::test]
async fn refusals_have_their_status_and_change_nothing() {
    let node = node().await;
    let hub = Caller::new(&node, "durable");
    let code = |answer: Result<(), tonic::Status>| answer.map_err(|status| status.code());
    let named = |id: &str| wire::SuspendRequest {
        instance_id: id.into(),
        reason: None,
    };
    for method in ["SuspendInstance", "ResumeInstance", "RewindInstance"] {
        assert_eq!(
            code(hub.tell(method, named("absent")).await),
            Err(Code::NotFound)
        );
    }
    assert_eq!(
        code(hub.tell("DoMagic", named("x")).await),
        Err(Code::Unimplemented)
    );
    let far = wire::CreateInstanceRequest {
        name: "f".into(),
        instance_id: "far".into(),
        scheduled_start_timestamp: Some(wire::well_known::Timestamp {
            seconds: 0,
            nanos: -1,
        }),
        ..wire::CreateInstanceRequest::default()
    };
    assert_eq!(
        code(hub.tell("StartInstance", far).await),
        Err(Code::InvalidArgument)
    );
    assert!(hub.get("far").await.is_none());
    for bad in ["@entity@key", &"x".repeat(101)] {
        assert_eq!(
            hub.start("f", bad).await.unwrap_err().code(),
            Code::InvalidArgument
        );
    }
    assert_eq!(
        hub.start("", "x").await.unwrap_err().code(),
        Code::InvalidArgument
    );
    hub.start("f", "x").await.unwrap();
    assert_eq!(
        hub.start("f", "x").await.unwrap_err().code(),
        Code::AlreadyExists
    );
    assert_eq!(
        code(hub.tell("RewindInstance", named("x")).await),
        Err(Code::FailedPrecondition)
    );
    let query = wire::QueryInstancesRequest {
        query: Some(wire::InstanceQuery {
            max_instance_count: -1,
            ..wire::InstanceQuery::default()
        }),
    };
    assert_eq!(
        code(hub.tell("QueryInstances", query).await),
        Err(Code::InvalidArgument)
    );
    let state = wire::QueryInstancesRequest {
        query: Some(wire::InstanceQuery {
            runtime_status: vec![99],
            ..wire::InstanceQuery::default()
        }),
    };
    assert_eq!(
        code(hub.tell("QueryInstances", state).await),
        Err(Code::InvalidArgument)
    );
    let nothing = wire::PurgeInstancesRequest::default();
    assert_eq!(
        code(hub.tell("PurgeInstances", nothing).await),
        Err(Code::InvalidArgument)
    );
    let many = wire::SkipGracefulOrchestrationTerminationsRequest {
        instance_batch: Some(wire::InstanceBatch {
            instance_ids: vec!["x".into(); 501],
        }),
        reason: None,
    };
    let skip = "SkipGracefulOrchestrationTerminations";
    assert_eq!(code(hub.tell(skip, many).await), Err(Code::InvalidArgument));
    let large = wire::RaiseEventRequest {
        instance_id: "x".into(),
        name: "e".into(),
        input: Some("x".repeat((16 << 20) + 1)),
    };
    assert_eq!(
        code(hub.tell("RaiseEvent", large).await),
        Err(Code::InvalidArgument)
    );
    let huge = wire::RaiseEventRequest {
        instance_id: "x".into(),
        name: "x".repeat(64 << 20),
        input: None,
    };
    assert_eq!(
        code(hub.tell("RaiseEvent", huge).await),
        Err(Code::ResourceExhausted)
    );
    let signal = wire::SignalEntityRequest {
        instance_id: format!("@counter@{}", "x".repeat(100)),
        name: "add".into(),
        ..wire::SignalEntityRequest::default()
    };
    assert_eq!(
        code(hub.tell("SignalEntity", signal).await),
        Err(Code::InvalidArgument)
    );
    let state = hub.get("x").await.unwrap();
    assert_eq!(
        state.orchestration_status(),
        wire::OrchestrationStatus::Pending
    );
}

/// A field that no request has in this form.
#[derive(Clone, PartialEq, prost::Message)]
struct Nonsense {
    #[prost(fixed64, tag = "1")]
    number: u64,
}

/// A message that is longer than any may be.
#[derive(Clone, PartialEq, prost::Message)]
struct Endless {
    #[prost(bytes, tag = "99")]
    bytes: Vec<u8>,
}

#[tokio::test]
async fn no_method_takes_what_is_malformed_or_too_long() {
    let node = node().await;
    let hub = Caller::new(&node, "durable");
    hub.start("f", "x").await.unwrap();
    let read = [
        "GetWorkItems",
        "CompleteOrchestratorTask",
        "CompleteActivityTask",
        "CompleteEntityTask",
        "CompleteTasks",
        "AbandonTaskOrchestratorWorkItem",
        "AbandonTaskActivityWorkItem",
        "AbandonTaskEntityWorkItem",
        "StreamInstanceHistory",
        "StartInstance",
        "GetInstance",
        "WaitForInstanceStart",
        "WaitForInstanceCompletion",
        "RaiseEvent",
        "TerminateInstance",
        "SuspendInstance",
        "ResumeInstance",
        "RewindInstance",
        "RestartInstance",
        "QueryInstances",
        "ListInstanceIds",
        "PurgeInstances",
        "SkipGracefulOrchestrationTerminations",
        "CreateTaskHub",
        "SignalEntity",
        "CallEntity",
        "GetEntity",
        "QueryEntities",
        "CleanEntityStorage",
    ];
    // These have no fields, so everything in them is skipped.
    let skipped = ["Hello", "DeleteTaskHub"];
    let code = |answer: Result<(), tonic::Status>| answer.unwrap_err().code();
    for method in read {
        let malformed = hub.tell(method, Nonsense { number: 7 }).await;
        assert_eq!(code(malformed), Code::InvalidArgument, "{method}");
    }
    let bytes = vec![0; (64 << 20) + 1];
    for method in read.iter().chain(&skipped) {
        let bytes = bytes.clone();
        let endless = hub.tell(method, Endless { bytes }).await;
        assert_eq!(code(endless), Code::ResourceExhausted, "{method}");
    }
    let call = |entity: &str, name: &str, input| wire::SignalEntityRequest {
        instance_id: entity.into(),
        name: name.into(),
        input,
        ..wire::SignalEntityRequest::default()
    };
    for bad in [
        call("counter", "add", None),
        call("@counter@a", "", None),
        call(&format!("@counter@{}", "x".repeat(100)), "add", None),
        call("@counter@a", "add", Some("x".repeat((16 << 20) + 1))),
    ] {
        for method in ["SignalEntity", "CallEntity"] {
            let refused = hub.tell(method, bad.clone()).await;
            assert_eq!(code(refused), Code::InvalidArgument, "{method}");
        }
    }
    // Nothing has changed.
    let state = hub.get("x").await.unwrap();
    assert_eq!(
        state.orchestration_status(),
        wire::OrchestrationStatus::Pending
    );
    let task_hub = node.task_hubs().hub("default").unwrap();
    let page = task_hub.entities(&Default::default()).await.unwrap();
    assert_eq!(page.items, []);
}

#[tokio::test]
async fn results_that_come_together_are_taken_or_refused_one_by_one() {
    let node = node().await;
    let hub = Caller::new(&node, "durable");
    let mut worker = hub.worker().await;
    let mut tasks = Vec::new();
    for instance in ["a", "b"] {
        hub.start("f", instance).await.unwrap();
        let (_, token) = worker.turn().await;
        let result = done(instance, &token, vec![end("7")]);
        let result = Some(Completed::Orchestrator(result));
        tasks.push(wire::CompletedTask { result });
    }
    let call = |tasks: Vec<wire::CompletedTask>| {
        let hub = hub.clone();
        async move {
            let request = wire::CompleteTasksRequest { tasks };
            let answer = hub.call::<_, wire::CompleteTasksResponse>("CompleteTasks", request);
            let answers = answer.await?.answers.into_iter();
            Ok::<_, tonic::Status>(
                answers
                    .map(|answer| answer.code.into())
                    .collect::<Vec<Code>>(),
            )
        }
    };
    let nothing = wire::CompletedTask { result: None };
    let too_many = vec![tasks[0].clone(); 257];
    let refused = call(too_many).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let state = hub.get("a").await.unwrap();
    assert_eq!(
        state.orchestration_status(),
        wire::OrchestrationStatus::Pending
    );
    tasks.insert(1, nothing);
    let answers = call(tasks).await.unwrap();
    assert_eq!(answers, [Code::Ok, Code::InvalidArgument, Code::Ok]);
    for instance in ["a", "b"] {
        let state = hub.get(instance).await.unwrap();
        let ended = wire::OrchestrationStatus::Completed;
        assert_eq!(state.orchestration_status(), ended);
    }
}

#[tokio::test]
async fn waits_end_with_the_patience_of_their_client() {
    let node = node().await;
    let hub = Caller::new(&node, "durable").with("grpc-timeout", "400m");
    hub.start("f", "slow").await.unwrap();
    let wait = |instance: &str| wire::GetInstanceRequest {
        instance_id: instance.into(),
        get_inputs_and_outputs: false,
    };
    for method in ["WaitForInstanceStart", "WaitForInstanceCompletion"] {
        let late = hub
            .call::<_, wire::GetInstanceResponse>(method, wait("slow"))
            .await;
        assert_eq!(late.unwrap_err().code(), Code::DeadlineExceeded);
        let unknown = hub
            .call::<_, wire::GetInstanceResponse>(method, wait("absent"))
            .await;
        assert!(!unknown.unwrap().exists);
    }
}

#[tokio::test]
async fn skipped_terminations_are_told() {
    let node = node().await;
    let hub = Caller::new(&node, "durable");
    hub.start("f", "live").await.unwrap();
    let request = wire::SkipGracefulOrchestrationTerminationsRequest {
        instance_batch: Some(wire::InstanceBatch {
            instance_ids: vec!["live".into(), "absent".into(), "@a@b".into()],
        }),
        reason: Some("\"enough\"".into()),
    };
    let method = "SkipGracefulOrchestrationTerminations";
    let answer =
        hub.call::<_, wire::SkipGracefulOrchestrationTerminationsResponse>(method, request);
    let answer = answer.await.unwrap();
    assert_eq!(answer.unterminated_instance_ids, ["absent", "@a@b"]);
    let state = hub.ended("live").await;
    assert_eq!(
        state.orchestration_status(),
        wire::OrchestrationStatus::Terminated
    );
}

#[tokio::test]
async fn task_hubs_are_made_and_wiped() {
    let node = node().await;
    let hub = Caller::new(&node, "durable").with("taskhub", "scratch");
    hub.start("f", "a").await.unwrap();
    let create = |recreate_if_exists| wire::CreateTaskHubRequest { recreate_if_exists };
    hub.tell("CreateTaskHub", create(false)).await.unwrap();
    assert!(hub.get("a").await.is_some());
    hub.tell("CreateTaskHub", create(true)).await.unwrap();
    assert!(hub.get("a").await.is_none());
    hub.start("f", "b").await.unwrap();
    hub.tell("DeleteTaskHub", ()).await.unwrap();
    assert!(hub.get("b").await.is_none());
}

#[tokio::test]
async fn only_declared_task_hubs_are_there_if_that_is_wanted() {
    let file = r#"
[durable]
unknown_hubs = false

[[task_hub]]
name = "blue"

[[key]]
name = "all"
primary = "all secret 01234567"
rights = ["manage durable"]
"#;
    let node = task_hub::node_with_file(file).await;
    let hub = |name: &str| {
        let hub = Caller::new(&node, "durable").with("taskhub", name);
        hub.with("authorization", "Bearer all secret 01234567")
    };
    hub("blue").start("f", "a").await.unwrap();
    for unknown in ["bleu", "default"] {
        let refused = hub(unknown).start("f", "a").await.unwrap_err();
        assert_eq!(refused.code(), Code::NotFound, "{refused}");
        assert!(refused.message().starts_with("STF-5108"), "{refused}");
    }
}

/// A worker that takes shorter messages than usual goes away; the next one would, too.
#[tokio::test]
async fn an_instance_whose_history_no_worker_takes_fails() {
    let node = node().await;
    let hub = Caller::new(&node, "durable");
    hub.start("f", "long").await.unwrap();
    for number in 0..5 {
        let request = wire::RaiseEventRequest {
            instance_id: "long".into(),
            name: format!("event {number}"),
            input: Some("x".repeat(800_000)),
        };
        hub.tell("RaiseEvent", request).await.unwrap();
        let mut worker = hub.worker().await;
        let (_, token) = worker.turn().await;
        hub.tell("CompleteOrchestratorTask", done("long", &token, Vec::new()))
            .await
            .unwrap();
    }
    let request = wire::RaiseEventRequest {
        instance_id: "long".into(),
        name: "last".into(),
        input: None,
    };
    hub.tell("RaiseEvent", request).await.unwrap();
    for _ in 0..3 {
        let mut worker = hub.worker().await;
        let (turn, _) = worker.turn().await;
        assert!(turn.past_events.len() > 10);
    }
    let ended = hub.ended("long").await;
    assert_eq!(
        ended.orchestration_status(),
        wire::OrchestrationStatus::Failed
    );
    assert_eq!(ended.failure_details.unwrap().error_type, "HistoryTooLarge");
}

/// Keys, one with each right.
const KEYS: &str = r#"
[[key]]
name = "starter"
primary = "starter secret 0123"
rights = ["send durable/blue"]

[[key]]
name = "worker"
primary = "worker secret 01234"
rights = ["listen durable"]

[[key]]
name = "keeper"
primary = "keeper secret 01234"
rights = ["manage durable"]
"#;

#[tokio::test]
async fn keys_open_what_they_may() {
    let node = task_hub::node_with_file(KEYS).await;
    let hub = |key: &str, name: &str| {
        let hub = Caller::new(&node, "durable").with("taskhub", name);
        hub.with("authorization", format!("Bearer {key}"))
    };
    let anonymous = Caller::new(&node, "durable");
    assert_eq!(
        anonymous.start("f", "a").await.unwrap_err().code(),
        Code::Unauthenticated
    );
    let hello = anonymous.tell("Hello", ()).await;
    assert_eq!(hello.unwrap_err().code(), Code::Unauthenticated);
    let wrong = hub("no secret of theirs", "blue");
    assert_eq!(
        wrong.start("f", "a").await.unwrap_err().code(),
        Code::Unauthenticated
    );
    let starter = hub("starter secret 0123", "blue");
    starter.start("f", "a").await.unwrap();
    let elsewhere = hub("starter secret 0123", "green");
    let refused = elsewhere.start("f", "a").await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    assert!(refused.message().starts_with("STF-6005"), "{refused}");
    let worker = hub("worker secret 01234", "blue");
    assert_eq!(
        worker.start("f", "b").await.unwrap_err().code(),
        Code::PermissionDenied
    );
    worker.tell("Hello", ()).await.unwrap();
    assert_eq!(worker.get("a").await.unwrap().name, "f");
    let end = || wire::TerminateRequest {
        instance_id: "a".into(),
        output: None,
        recursive: false,
    };
    let refused = worker.tell("TerminateInstance", end()).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    let keeper = hub("keeper secret 01234", "blue");
    keeper.tell("TerminateInstance", end()).await.unwrap();
    let state = keeper.ended("a").await;
    assert_eq!(
        state.orchestration_status(),
        wire::OrchestrationStatus::Terminated
    );
}

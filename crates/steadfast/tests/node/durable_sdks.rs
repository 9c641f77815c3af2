//! What SDKs of Durable Task send and their tests expect.

use std::time::Duration;

use prost::Message as _;
use steadfast_wire::durabletask as wire;
use steadfast_wire::durabletask::history_event::EventType;
use steadfast_wire::durabletask::orchestrator_action::OrchestratorActionType;
use steadfast_wire::durabletask::work_item::Request as Work;
use tonic::Code;
use wire::OrchestrationStatus as Status;

use crate::task_hub::{Caller, PATIENCE, Stream, action, done, end, node};

/// Longer than any worker should wait, shorter than the patience of the tests.
const A_WHILE: Duration = Duration::from_millis(500);

fn schedule(id: i32, name: &str) -> wire::OrchestratorAction {
    let task = wire::ScheduleTaskAction {
        name: name.into(),
        ..wire::ScheduleTaskAction::default()
    };
    action(id, OrchestratorActionType::ScheduleTask(task))
}

fn named(name: &str, versions: &[&str]) -> wire::OrchestrationFilter {
    wire::OrchestrationFilter {
        name: name.into(),
        versions: versions.iter().map(|v| (*v).to_owned()).collect(),
    }
}

/// A worker with these filters.
async fn filtered(hub: &Caller, filters: wire::WorkItemFilters) -> Stream {
    let request = wire::GetWorkItemsRequest {
        work_item_filters: Some(filters),
        ..wire::GetWorkItemsRequest::default()
    };
    hub.worker_with(request).await
}

/// Ends a turn with these actions.
async fn turned(hub: &Caller, instance: &str, token: &str, actions: Vec<wire::OrchestratorAction>) {
    let result = done(instance, token, actions);
    hub.tell("CompleteOrchestratorTask", result).await.unwrap();
}

async fn signal(hub: &Caller, entity: &str) {
    let signal = wire::SignalEntityRequest {
        instance_id: entity.into(),
        name: "add".into(),
        ..wire::SignalEntityRequest::default()
    };
    hub.tell("SignalEntity", signal).await.unwrap();
}

/// Nothing but pings comes for a while.
async fn is_idle(worker: &mut Stream) -> bool {
    tokio::time::timeout(A_WHILE, worker.work()).await.is_err()
}

#[tokio::test]
async fn durable_35_filters_that_name_nothing_filter_nothing() {
    let node = node().await;
    let hub = Caller::new(&node, "durable");
    let request = wire::GetWorkItemsRequest {
        work_item_filters: Some(wire::WorkItemFilters::default()),
        ..wire::GetWorkItemsRequest::default()
    };
    // These are the bytes that .NET sends unless it is told of filters.
    assert_eq!(request.encode_to_vec(), [0x5a, 0x00]);
    let mut worker = hub.worker_with(request).await;
    hub.start("f", "i").await.unwrap();
    let turn = tokio::time::timeout(PATIENCE, worker.turn()).await;
    let (_, token) = turn.expect("it is given a turn");
    turned(&hub, "i", &token, vec![schedule(0, "a")]).await;
    worker.activity().await;
    signal(&hub, "@counter@k").await;
    worker.batch().await;
}

#[tokio::test]
async fn durable_35_a_worker_that_names_activities_alone_gets_nothing_else() {
    let node = node().await;
    let hub = Caller::new(&node, "durable");
    let filters = wire::WorkItemFilters {
        activities: vec![wire::ActivityFilter {
            name: "A".into(),
            ..wire::ActivityFilter::default()
        }],
        ..wire::WorkItemFilters::default()
    };
    let mut sandbox = filtered(&hub, filters).await;
    hub.start("f", "i").await.unwrap();
    signal(&hub, "@counter@k").await;
    assert!(is_idle(&mut sandbox).await);
    let filters = wire::WorkItemFilters {
        orchestrations: vec![named("F", &[])],
        entities: vec![wire::EntityFilter {
            name: "Counter".into(),
        }],
        ..wire::WorkItemFilters::default()
    };
    let mut rest = filtered(&hub, filters).await;
    let mut kinds = Vec::new();
    for _ in 0..2 {
        let (work, token) = rest.work().await;
        if let Work::OrchestratorRequest(_) = &work {
            turned(&hub, "i", &token, vec![schedule(0, "a")]).await;
        }
        kinds.push(matches!(work, Work::EntityRequestV2(_)));
    }
    assert!(kinds.contains(&true) && kinds.contains(&false));
    assert_eq!(sandbox.activity().await.0.name, "a");
}

/// Worker versioning `Reject` of .NET, during a rolling upgrade.
#[tokio::test]
async fn durable_38_an_instance_goes_to_the_worker_that_does_not_give_it_back() {
    let node = node().await;
    let hub = Caller::new(&node, "durable");
    let mut old = hub.worker().await;
    let request = wire::CreateInstanceRequest {
        instance_id: "i".into(),
        name: "f".into(),
        version: Some("2.0".into()),
        ..wire::CreateInstanceRequest::default()
    };
    hub.tell("StartInstance", request).await.unwrap();
    let give_back = async |token: String| {
        let request = wire::AbandonOrchestrationTaskRequest {
            completion_token: token,
        };
        let method = "AbandonTaskOrchestratorWorkItem";
        hub.tell(method, request).await.unwrap();
    };
    for _ in 0..3 {
        give_back(old.turn().await.1).await;
    }
    let mut new = hub.worker().await;
    let (_, token) = new.turn().await;
    turned(&hub, "i", &token, vec![schedule(0, "a")]).await;
    // The activity may go to either; the turn behind it goes to the new one.
    let (activity, mine) = tokio::select! {
        found = old.activity() => found,
        found = new.activity() => found,
    };
    let result = wire::ActivityResponse {
        instance_id: "i".into(),
        task_id: activity.task_id,
        completion_token: mine,
        ..wire::ActivityResponse::default()
    };
    hub.tell("CompleteActivityTask", result).await.unwrap();
    let (_, token) = new.turn().await;
    turned(&hub, "i", &token, vec![end("7")]).await;
    assert_eq!(hub.ended("i").await.output.as_deref(), Some("7"));
}

#[tokio::test]
async fn a_failure_is_shown_to_clients_that_want_outputs() {
    let node = node().await;
    let hub = Caller::new(&node, "durable");
    let mut worker = hub.worker().await;
    hub.start("f", "i").await.unwrap();
    let (_, token) = worker.turn().await;
    let failed = wire::CompleteOrchestrationAction {
        orchestration_status: Status::Failed.into(),
        failure_details: Some(wire::TaskFailureDetails {
            error_type: "Planned".into(),
            ..wire::TaskFailureDetails::default()
        }),
        ..wire::CompleteOrchestrationAction::default()
    };
    let failed = action(-1, OrchestratorActionType::CompleteOrchestration(failed));
    turned(&hub, "i", &token, vec![failed]).await;
    assert!(hub.ended("i").await.failure_details.is_some());
    for method in [
        "GetInstance",
        "WaitForInstanceStart",
        "WaitForInstanceCompletion",
    ] {
        for is_wanted in [true, false] {
            let request = wire::GetInstanceRequest {
                instance_id: "i".into(),
                get_inputs_and_outputs: is_wanted,
            };
            let found: wire::GetInstanceResponse = hub.call(method, request).await.unwrap();
            let state = found.orchestration_state.unwrap();
            assert_eq!(state.orchestration_status(), Status::Failed);
            assert_eq!(state.failure_details.is_some(), is_wanted, "{method}");
        }
    }
}

#[tokio::test]
async fn durable_12_13_older_sdks_say_what_becomes_of_an_instance_whose_id_they_reuse() {
    let node = node().await;
    let hub = Caller::new(&node, "durable");
    let start = async |action: wire::CreateOrchestrationAction, listed: &[Status], input: &str| {
        let policy = wire::OrchestrationIdReusePolicy {
            replaceable_status: listed.iter().map(|status| (*status).into()).collect(),
            action: action.into(),
        };
        let request = wire::CreateInstanceRequest {
            instance_id: "i".into(),
            name: "f".into(),
            input: Some(input.into()),
            orchestration_id_reuse_policy: Some(policy),
            ..wire::CreateInstanceRequest::default()
        };
        hub.tell("StartInstance", request).await
    };
    // As the SDK for Go writes it.
    let listed = [Status::Running, Status::Completed, Status::Pending];
    let policy = wire::OrchestrationIdReusePolicy {
        replaceable_status: listed.iter().map(|status| (*status).into()).collect(),
        action: wire::CreateOrchestrationAction::Terminate.into(),
    };
    assert_eq!(policy.encode_to_vec(), [0x0a, 3, 0, 1, 6, 0x10, 2]);
    hub.start("f", "i").await.unwrap();
    let refused = hub.start("f", "i").await.unwrap_err();
    assert_eq!(refused.code(), Code::AlreadyExists);
    let text = "orchestration instance already exists";
    assert!(refused.message().contains(text), "{refused}");
    use wire::CreateOrchestrationAction as Action;
    start(Action::Ignore, &listed, "2").await.unwrap();
    assert_eq!(hub.get("i").await.unwrap().input.as_deref(), Some("1"));
    // A state that is not listed is refused, whatever is said of the others.
    for action in [Action::Ignore, Action::Terminate] {
        let refused = start(action, &[Status::Completed], "2").await.unwrap_err();
        assert_eq!(refused.code(), Code::AlreadyExists);
    }
    start(Action::Terminate, &listed, "2").await.unwrap();
    assert_eq!(hub.get("i").await.unwrap().input.as_deref(), Some("2"));
    // Newer SDKs list the state that a live instance is put into.
    let refused = start(Action::Error, &listed, "3").await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let text = "Invalid reusable statuses: cannot exclude 'Terminated'";
    assert!(refused.message().contains(text), "{refused}");
    assert_eq!(hub.get("i").await.unwrap().input.as_deref(), Some("2"));
}

/// Activity, timer and child, one after the other.
async fn three_steps(hub: &Caller, worker: &mut Stream) {
    hub.start("f", "i").await.unwrap();
    let (_, token) = worker.turn().await;
    turned(hub, "i", &token, vec![schedule(0, "a")]).await;
    let (activity, token) = worker.activity().await;
    let result = wire::ActivityResponse {
        instance_id: "i".into(),
        task_id: activity.task_id,
        completion_token: token,
        ..wire::ActivityResponse::default()
    };
    hub.tell("CompleteActivityTask", result).await.unwrap();
    let (_, token) = worker.turn().await;
    let timer = wire::CreateTimerAction {
        fire_at: Some(wire::well_known::Timestamp::default()),
    };
    let timer = action(1, OrchestratorActionType::CreateTimer(timer));
    turned(hub, "i", &token, vec![timer]).await;
    let (_, token) = worker.turn().await;
    let child = wire::CreateSubOrchestrationAction {
        instance_id: "child".into(),
        name: "g".into(),
        ..wire::CreateSubOrchestrationAction::default()
    };
    let child = action(2, OrchestratorActionType::CreateSubOrchestration(child));
    turned(hub, "i", &token, vec![child]).await;
    for instance in ["child", "i"] {
        let (_, token) = worker.turn().await;
        turned(hub, instance, &token, vec![end("7")]).await;
    }
    hub.ended("i").await;
}

/// The kinds of events in a history.
async fn history(hub: &Caller, for_work_item_processing: bool) -> Vec<EventType> {
    let request = wire::StreamInstanceHistoryRequest {
        instance_id: "i".into(),
        execution_id: None,
        for_work_item_processing,
    };
    let mut chunks = hub
        .stream::<_, wire::HistoryChunk>("StreamInstanceHistory", request)
        .await
        .unwrap();
    let mut kinds = Vec::new();
    while let Some(chunk) = chunks.message().await.unwrap() {
        kinds.extend(
            chunk
                .events
                .into_iter()
                .filter_map(|event| event.event_type),
        );
    }
    kinds
}

#[tokio::test]
async fn histories_for_clients_do_not_show_where_turns_end() {
    let node = node().await;
    let hub = Caller::new(&node, "durable");
    let mut worker = hub.worker().await;
    three_steps(&hub, &mut worker).await;
    let is_end = |kind: &EventType| matches!(kind, EventType::OrchestratorCompleted(_));
    let shown = history(&hub, false).await;
    assert_eq!(shown.len(), 12, "{shown:?}");
    assert!(!shown.iter().any(is_end));
    let is_start = |kind: &EventType| matches!(kind, EventType::OrchestratorStarted(_));
    let starts = shown.iter().enumerate().filter(|(_, kind)| is_start(kind));
    let starts: Vec<_> = starts.map(|(place, _)| place).collect();
    assert_eq!(starts, [0, 3, 6, 9]);
    assert!(matches!(shown[11], EventType::ExecutionCompleted(_)));
    // Workers get what was committed.
    let whole = history(&hub, true).await;
    assert_eq!(whole.iter().filter(|kind| is_end(kind)).count(), 4);
    assert_eq!(whole.len(), 16);
}

#[tokio::test]
async fn the_cursor_of_a_list_of_ids_shows_the_last_id() {
    let node = node().await;
    let hub = Caller::new(&node, "durable");
    let mut worker = hub.worker().await;
    let mut ids = Vec::new();
    for number in 0..5 {
        // Ids may hold what stands between time and id.
        let id = hub.start("f", &format!("i|{number}")).await.unwrap();
        let (_, token) = worker.turn().await;
        turned(&hub, &id, &token, vec![end("7")]).await;
        hub.ended(&id).await;
        ids.push(id);
    }
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let request = wire::ListInstanceIdsRequest {
            page_size: 2,
            last_instance_key: cursor.take(),
            ..wire::ListInstanceIdsRequest::default()
        };
        let page: wire::ListInstanceIdsResponse =
            hub.call("ListInstanceIds", request).await.unwrap();
        let last = page.instance_ids.last().cloned();
        found.extend(page.instance_ids);
        cursor = page.last_instance_key;
        match &cursor {
            Some(cursor) => assert!(cursor.contains(&last.unwrap()), "{cursor}"),
            None => break,
        }
    }
    found.sort();
    assert_eq!(found, ids);
    for bad in ["x|i", "0|i", "zz", "zzzzzzzzzzzzzzzz|i"] {
        let request = wire::ListInstanceIdsRequest {
            last_instance_key: Some(bad.into()),
            ..wire::ListInstanceIdsRequest::default()
        };
        let refused = hub.tell("ListInstanceIds", request).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{bad}");
    }
}

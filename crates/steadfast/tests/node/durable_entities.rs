//! Entities by gRPC: both encodings, and locks between them.

use serde_json::{Value, json};
use steadfast_wire::durabletask as wire;
use steadfast_wire::durabletask::history_event::EventType;
use steadfast_wire::durabletask::operation_result::ResultType;
use steadfast_wire::durabletask::orchestrator_action::OrchestratorActionType;
use steadfast_wire::durabletask::send_entity_message_action::EntityMessageType;
use steadfast_wire::durabletask::work_item::Request as Work;

use crate::task_hub::{Caller, Stream, action, done, end, node};

const ENTITY: &str = "@counter@a";

fn guid(number: u32) -> String {
    format!("0f8fad5b-d9cb-469f-a165-7086772895{number:02x}")
}

/// A message to the entity in the form of older workers.
fn event(id: i32, name: &str, data: &Value) -> wire::OrchestratorAction {
    let event = wire::SendEventAction {
        instance: Some(wire::OrchestrationInstance {
            instance_id: ENTITY.into(),
            execution_id: None,
        }),
        name: name.into(),
        data: Some(data.to_string()),
    };
    action(id, OrchestratorActionType::SendEvent(event))
}

/// A message to the entity as newer workers write it.
fn message(id: i32, kind: EntityMessageType) -> wire::OrchestratorAction {
    let message = wire::SendEntityMessageAction {
        entity_message_type: Some(kind),
    };
    action(id, OrchestratorActionType::SendEntityMessage(message))
}

/// Runs a batch: every operation adds one, and its result is the new state.
async fn run(hub: &Caller, batch: wire::EntityRequest, token: String) -> usize {
    let state = batch.entity_state.as_deref().unwrap_or("0");
    let mut state: i64 = state.parse().unwrap();
    let count = batch.operation_requests.len();
    let results: Vec<_> = batch
        .operation_requests
        .iter()
        .map(|_| {
            state += 1;
            let success = wire::OperationResultSuccess {
                result: Some(state.to_string()),
                ..wire::OperationResultSuccess::default()
            };
            wire::OperationResult {
                result_type: Some(ResultType::Success(success)),
            }
        })
        .collect();
    let result = wire::EntityBatchResult {
        results,
        entity_state: Some(state.to_string()),
        completion_token: token,
        ..wire::EntityBatchResult::default()
    };
    hub.tell("CompleteEntityTask", result).await.unwrap();
    count
}

/// The next turn; batches that come before it are run.
async fn turn(hub: &Caller, worker: &mut Stream) -> (wire::OrchestratorRequest, String) {
    loop {
        match worker.work().await {
            (Work::OrchestratorRequest(turn), token) => return (turn, token),
            (Work::EntityRequestV2(batch), token) => {
                run(hub, batch, token).await;
            }
            other => panic!("{other:?}"),
        }
    }
}

async fn complete(
    hub: &Caller,
    instance: &str,
    token: &str,
    actions: Vec<wire::OrchestratorAction>,
) {
    let result = done(instance, token, actions);
    hub.tell("CompleteOrchestratorTask", result).await.unwrap();
}

fn raised(turn: &wire::OrchestratorRequest) -> (String, Value) {
    let raised = turn
        .new_events
        .iter()
        .find_map(|event| match &event.event_type {
            Some(EventType::EventRaised(raised)) => Some(raised),
            _ => None,
        });
    let raised = raised.unwrap_or_else(|| panic!("no event: {turn:?}"));
    let input = raised.input.as_deref().unwrap();
    (raised.name.clone(), serde_json::from_str(input).unwrap())
}

#[tokio::test]
async fn older_workers_call_signal_and_lock_by_events() {
    let node = node().await;
    let hub = Caller::new(&node, "durable");
    hub.start("f", "old").await.unwrap();
    let mut worker = hub.worker().await;
    let (_, token) = worker.turn().await;
    let signal = json!({"op": "add", "signal": true, "id": guid(1)});
    let call = json!({"op": "add", "id": guid(2), "parent": "old", "$type": "ignored"});
    complete(
        &hub,
        "old",
        &token,
        vec![event(0, "op", &signal), event(1, "op", &call)],
    )
    .await;
    let (next, token) = turn(&hub, &mut worker).await;
    assert_eq!(raised(&next), (guid(2), json!({"result": "2"})));
    let sent: Vec<_> = next
        .past_events
        .iter()
        .filter_map(|event| match &event.event_type {
            Some(EventType::EventSent(sent)) => Some((event.event_id, sent.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(sent.len(), 2, "{:?}", next.past_events);
    assert_eq!(sent[1].0, 1);
    assert_eq!(
        (sent[1].1.instance_id.as_str(), sent[1].1.name.as_str()),
        (ENTITY, "op")
    );
    assert_eq!(sent[1].1.input, Some(call.to_string()));
    let lock = json!({"op": null, "id": guid(3), "parent": "old",
        "lockset": [{"name": "counter", "key": "a"}], "pos": 0});
    complete(&hub, "old", &token, vec![event(2, "op", &lock)]).await;
    let (next, token) = turn(&hub, &mut worker).await;
    let granted = json!({"result": "Lock Acquisition Completed"});
    assert_eq!(raised(&next), (guid(3), granted));
    let release = json!({"parent": "old", "id": guid(3)});
    complete(
        &hub,
        "old",
        &token,
        vec![event(3, "release", &release), end("7")],
    )
    .await;
    assert_eq!(hub.ended("old").await.output.as_deref(), Some("7"));
}

#[tokio::test]
async fn durable_62_both_styles_exclude_each_other() {
    let node = node().await;
    let hub = Caller::new(&node, "durable");
    let mut worker = hub.worker().await;
    // An older worker holds the lock.
    hub.start("f", "old").await.unwrap();
    let (_, token) = worker.turn().await;
    let lock = json!({"op": null, "id": guid(1), "parent": "old",
        "lockset": [{"name": "counter", "key": "a"}]});
    complete(&hub, "old", &token, vec![event(0, "op", &lock)]).await;
    let (_, held) = worker.turn().await;
    // A newer one wants it, and a client signals.
    hub.start("g", "new").await.unwrap();
    let (_, token) = worker.turn().await;
    let wish = wire::EntityLockRequestedEvent {
        critical_section_id: guid(2),
        lock_set: vec![ENTITY.into()],
        position: 0,
        parent_instance_id: Some("new".into()),
    };
    let wish = message(0, EntityMessageType::EntityLockRequested(wish));
    complete(&hub, "new", &token, vec![wish]).await;
    let signal = wire::SignalEntityRequest {
        instance_id: ENTITY.into(),
        name: "add".into(),
        request_id: guid(9),
        ..wire::SignalEntityRequest::default()
    };
    hub.tell("SignalEntity", signal).await.unwrap();
    let query = wire::QueryEntitiesRequest {
        query: Some(wire::EntityQuery {
            include_transient: true,
            ..wire::EntityQuery::default()
        }),
    };
    let found: wire::QueryEntitiesResponse = hub.call("QueryEntities", query).await.unwrap();
    assert_eq!(found.entities[0].locked_by.as_deref(), Some("old"));
    // Only the holder's call runs: the batch holds nothing else.
    let call = json!({"op": "add", "id": guid(3), "parent": "old"});
    complete(&hub, "old", &held, vec![event(1, "op", &call)]).await;
    let (batch, batch_token) = worker.batch().await;
    let Some(EventType::EntityOperationCalled(called)) = &batch.operation_requests[0].event_type
    else {
        panic!("{batch:?}");
    };
    assert_eq!(
        (called.request_id.as_str(), batch.operation_requests.len()),
        (guid(3).as_str(), 1)
    );
    assert_eq!(called.parent_instance_id.as_deref(), Some("old"));
    run(&hub, batch, batch_token).await;
    let (next, token) = worker.turn().await;
    assert_eq!(
        (next.instance_id.as_str(), raised(&next).1),
        ("old", json!({"result": "1"}))
    );
    let release = json!({"parent": "old", "id": guid(1)});
    complete(
        &hub,
        "old",
        &token,
        vec![event(2, "release", &release), end("1")],
    )
    .await;
    // Now the newer one has it, told in its own words, and the signal waits for it.
    let (next, token) = worker.turn().await;
    assert_eq!(next.instance_id, "new");
    let is_granted = |event: &wire::HistoryEvent| {
        let granted = wire::EntityLockGrantedEvent {
            critical_section_id: guid(2),
        };
        event.event_type == Some(EventType::EntityLockGranted(granted))
    };
    assert!(next.new_events.iter().any(is_granted), "{next:?}");
    let unlock = wire::EntityUnlockSentEvent {
        critical_section_id: guid(2),
        parent_instance_id: Some("new".into()),
        target_instance_id: Some(ENTITY.into()),
    };
    let unlock = message(1, EntityMessageType::EntityUnlockSent(unlock));
    complete(&hub, "new", &token, vec![unlock, end("2")]).await;
    let (batch, batch_token) = worker.batch().await;
    assert_eq!(run(&hub, batch, batch_token).await, 1);
}

#[tokio::test]
async fn a_batch_that_cannot_be_kept_fails_as_a_whole() {
    let node = node().await;
    let hub = Caller::new(&node, "durable");
    hub.start("f", "caller").await.unwrap();
    let mut worker = hub.worker().await;
    let (_, token) = worker.turn().await;
    let call = wire::EntityOperationCalledEvent {
        request_id: guid(1),
        operation: "add".into(),
        parent_instance_id: Some("caller".into()),
        target_instance_id: Some(ENTITY.into()),
        ..wire::EntityOperationCalledEvent::default()
    };
    let call = message(0, EntityMessageType::EntityOperationCalled(call));
    complete(&hub, "caller", &token, vec![call]).await;
    let (_, token) = worker.batch().await;
    let result = wire::EntityBatchResult {
        results: vec![wire::OperationResult::default()],
        entity_state: Some("1".into()),
        completion_token: token,
        ..wire::EntityBatchResult::default()
    };
    hub.tell("CompleteEntityTask", result).await.unwrap();
    let (next, _) = worker.turn().await;
    let failed = next
        .new_events
        .iter()
        .find_map(|event| match &event.event_type {
            Some(EventType::EntityOperationFailed(failed)) => failed.failure_details.clone(),
            _ => None,
        });
    assert_eq!(failed.unwrap().error_type, "InvalidResult");
    let request = wire::GetEntityRequest {
        instance_id: ENTITY.into(),
        include_state: true,
    };
    let found: wire::GetEntityResponse = hub.call("GetEntity", request).await.unwrap();
    assert!(!found.exists);
}

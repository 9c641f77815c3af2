//! Memory for the bodies of requests to task hubs.

use steadfast_wire::durabletask as wire;
use steadfast_wire::durabletask::operation_result::ResultType;
use tokio::task::JoinSet;
use tonic::Code;

use crate::task_hub::{Caller, PATIENCE, node};

/// The bytes of an input and of a state. A body that large reserves twice as much at most,
/// and all bodies of one client have 48 MiB.
const BYTES: usize = 1024 * 1024;
const CALLS: usize = 80;

/// A call of an entity holds its body until a worker answers it. If the worker's result
/// waited for the same memory, neither would continue.
#[tokio::test]
async fn results_do_not_wait_for_the_bodies_of_calls() {
    let node = node().await;
    let hub = Caller::new(&node, "durable");
    let mut worker = hub.worker().await;
    let mut calls: JoinSet<_> = (0..CALLS)
        .map(|number| {
            let call = wire::SignalEntityRequest {
                instance_id: format!("@shelf@{number}"),
                name: "fill".into(),
                input: Some("x".repeat(BYTES)),
                ..wire::SignalEntityRequest::default()
            };
            let hub = hub.clone();
            async move {
                hub.call::<_, wire::CallEntityResponse>("CallEntity", call)
                    .await
            }
        })
        .collect();
    let (_, token) = worker.batch().await;
    // No call is answered: the first end is one that finds no memory.
    let refused = tokio::time::timeout(PATIENCE, calls.join_next())
        .await
        .unwrap();
    let refused = refused.unwrap().unwrap().unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    assert!(refused.message().contains("STF-6026"), "{refused}");
    let success = wire::OperationResultSuccess {
        result: Some("7".into()),
        ..wire::OperationResultSuccess::default()
    };
    let result = wire::EntityBatchResult {
        entity_state: Some("x".repeat(BYTES)),
        results: vec![wire::OperationResult {
            result_type: Some(ResultType::Success(success)),
        }],
        completion_token: token,
        ..wire::EntityBatchResult::default()
    };
    hub.tell("CompleteEntityTask", result).await.unwrap();
    let answered = async {
        while let Some(answer) = calls.join_next().await {
            if let Ok(answer) = answer.unwrap() {
                return answer.output;
            }
        }
        None
    };
    let answered = tokio::time::timeout(PATIENCE, answered).await.unwrap();
    assert_eq!(answered.as_deref(), Some("7"));
}

//! Workers without filters that have no code for an item.

use std::time::Duration;

use crate::delivery::{ends, wants};
use crate::hall::{Hall, Node, task};
use steadfast_durable::{
    ActionKind, EventKind, FailureDetails, InstanceEvent, InstanceStatus, TurnResult, WorkDelivery,
    WorkPayload, WorkerOptions, WorkerStream,
};
use tokio::time::Instant;

/// What SDKs say of an activity that they do not know.
const UNKNOWN_ACTIVITIES: [(&str, &str); 6] = [
    (
        "durabletask.worker.ActivityNotRegisteredError",
        "Activity function named 'a' was not registered!",
    ),
    (
        "ActivityNotRegisteredError",
        "Activity function 'a' is not registered.",
    ),
    (
        "TaskActivityNotRegistered",
        "no task activity named 'a' was registered",
    ),
    (
        "java.lang.IllegalStateException",
        "No activity task named 'a' is registered.",
    ),
    (
        "ActivityTaskNotFound",
        "No activity task named 'a' was found.",
    ),
    (
        "UnknownActivity",
        "there is no activity \"a\" in this process",
    ),
];

async fn next(worker: &mut WorkerStream) -> WorkDelivery {
    let item = tokio::time::timeout(Duration::from_secs(60), worker.next());
    item.await.expect("it is given something").unwrap()
}

/// The number of an activity.
fn activity(item: &WorkDelivery) -> i32 {
    match &item.work {
        WorkPayload::Activity(activity) => activity.id,
        other => panic!("no activity: {other:?}"),
    }
}

fn failed_turn(kind: &str, message: &str) -> TurnResult {
    wants(vec![ActionKind::Complete {
        status: InstanceStatus::Failed,
        result: None,
        failure: Some(FailureDetails::new(kind, message)),
    }])
}

/// Begins an instance, whose only turn asks for an activity.
async fn begin_activity(node: &Node, worker: &mut WorkerStream, id: &str) {
    node.begin("o", id, "1").await;
    let turn = next(worker).await;
    let result = wants(vec![ActionKind::Schedule(task("a", "1"))]);
    assert!(
        node.hub
            .complete_turn(&turn.token, id, result)
            .await
            .unwrap()
    );
}

/// Java and Go answer without the token of the item.
#[tokio::test(start_paused = true)]
async fn durable_35_a_turn_goes_on_to_the_worker_that_has_its_code() {
    let hall = Hall::new();
    let node = hall.start().await;
    let mut workers = [(); 2].map(|()| node.hub.worker(WorkerOptions::default()));
    let words = [
        (
            "durabletask.worker.OrchestratorNotRegisteredError",
            "A 'o' orchestrator was not registered.",
        ),
        (
            "OrchestratorNotRegisteredError",
            "Orchestrator 'o' does not exist.",
        ),
        (
            "*errors.errorString",
            "orchestrator named 'o' is not registered",
        ),
        (
            "OrchestratorTaskNotFound",
            "No orchestrator task named 'o' was found.",
        ),
        (
            "UnknownOrchestration",
            "there is no orchestration \"o\" in this process",
        ),
    ];
    for (number, (kind, message)) in words.into_iter().enumerate() {
        let id = format!("i-{number}");
        let began = Instant::now();
        node.begin("o", &id, "1").await;
        let [first, second] = &mut workers;
        let (item, other) = tokio::select! {
            item = next(first) => (item, second),
            item = next(second) => (item, first),
        };
        let token = if number == 2 { "" } else { &item.token };
        let missing = failed_turn(kind, message);
        assert!(node.hub.complete_turn(token, &id, missing).await.unwrap());
        let item = next(other).await;
        assert_eq!(began.elapsed(), Duration::ZERO, "{kind}");
        assert!(
            node.hub
                .complete_turn(&item.token, &id, ends())
                .await
                .unwrap()
        );
        let end = node.hub.ended(&id, false).await.unwrap();
        assert_eq!(end.status, InstanceStatus::Completed, "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn durable_35_an_activity_goes_on_to_the_worker_that_has_its_code() {
    let hall = Hall::new();
    let node = hall.start().await;
    for (number, (kind, message)) in UNKNOWN_ACTIVITIES.into_iter().enumerate() {
        let id = format!("i-{number}");
        let mut first = node.hub.worker(WorkerOptions::default());
        begin_activity(&node, &mut first, &id).await;
        let item = next(&mut first).await;
        let activity = activity(&item);
        let mut second = node.hub.worker(WorkerOptions::default());
        let began = Instant::now();
        let token = if number == 2 { "" } else { &item.token };
        let missing = Err(FailureDetails::new(kind, message));
        let done = node.hub.complete_activity(token, &id, activity, missing);
        assert!(done.await.unwrap());
        let item = next(&mut second).await;
        assert_eq!(began.elapsed(), Duration::ZERO, "{kind}");
        let done = node
            .hub
            .complete_activity(&item.token, &id, activity, Ok(None));
        assert!(done.await.unwrap());
        drop(second);
        let turn = next(&mut first).await;
        assert!(
            node.hub
                .complete_turn(&turn.token, &id, ends())
                .await
                .unwrap()
        );
        let end = node.hub.ended(&id, false).await.unwrap();
        assert_eq!(end.status, InstanceStatus::Completed, "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn durable_35_work_that_no_worker_has_code_for_fails_once_each_was_asked() {
    let hall = Hall::new();
    let node = hall.start().await;
    let mut first = node.hub.worker(WorkerOptions::default());
    begin_activity(&node, &mut first, "i").await;
    let mut second = node.hub.worker(WorkerOptions::default());
    for worker in [&mut first, &mut second] {
        let item = next(worker).await;
        let activity = activity(&item);
        let (kind, message) = UNKNOWN_ACTIVITIES[0];
        let missing = Err(FailureDetails::new(kind, message));
        let done = node
            .hub
            .complete_activity(&item.token, "i", activity, missing);
        assert!(done.await.unwrap());
    }
    // The failure is the result: a turn follows.
    let (item, other) = tokio::select! {
        item = next(&mut first) => (item, &mut second),
        item = next(&mut second) => (item, &mut first),
    };
    assert!(matches!(item.work, WorkPayload::Turn(_)), "{:?}", item.work);
    let missing = || {
        failed_turn(
            "OrchestratorNotRegisteredError",
            "Orchestrator 'o' does not exist.",
        )
    };
    let done = node.hub.complete_turn(&item.token, "i", missing());
    assert!(done.await.unwrap());
    let item = next(other).await;
    let done = node.hub.complete_turn(&item.token, "i", missing());
    assert!(done.await.unwrap());
    let end = node.hub.ended("i", true).await.unwrap();
    assert_eq!(end.failure.unwrap().kind, "OrchestratorNotRegisteredError");
}

/// It has code itself, and ends with what it was told of another one.
#[tokio::test(start_paused = true)]
async fn durable_35_a_failure_for_the_lack_of_other_code_is_a_result() {
    let hall = Hall::new();
    let node = hall.start().await;
    let mut worker = node.hub.worker(WorkerOptions::default());
    let failures = [
        (
            "OrchestratorNotRegisteredError",
            "Orchestrator 'child' does not exist.",
        ),
        (
            "UnknownActivity",
            "there is no activity \"o\" in this process",
        ),
    ];
    for (number, (kind, message)) in failures.into_iter().enumerate() {
        let id = format!("i-{number}");
        node.begin("o", &id, "1").await;
        let item = next(&mut worker).await;
        let _other = node.hub.worker(WorkerOptions::default());
        let failed = failed_turn(kind, message);
        let done = node.hub.complete_turn(&item.token, &id, failed);
        assert!(done.await.unwrap());
        let end = tokio::time::timeout(Duration::from_secs(60), node.hub.ended(&id, true));
        let end = end.await.expect("it has ended").unwrap();
        assert_eq!(end.failure.unwrap().kind, kind);
    }
}

/// What a worker said of an earlier delivery is no result of the one that is out.
#[tokio::test(start_paused = true)]
async fn durable_35_a_refusal_that_comes_again_is_no_result() {
    let hall = Hall::new();
    let node = hall.start().await;
    let mut first = node.hub.worker(WorkerOptions::default());
    begin_activity(&node, &mut first, "i").await;
    let item = next(&mut first).await;
    let activity = activity(&item);
    let mut second = node.hub.worker(WorkerOptions::default());
    let refuse = || {
        let (kind, message) = UNKNOWN_ACTIVITIES[0];
        let missing = Err(FailureDetails::new(kind, message));
        node.hub
            .complete_activity(&item.token, "i", activity, missing)
    };
    assert!(refuse().await.unwrap());
    let other = next(&mut second).await;
    assert!(refuse().await.unwrap());
    assert!(does(&node, &other, activity).await);
    drop(second);
    let turn = next(&mut first).await;
    let WorkPayload::Turn(turn) = &turn.work else {
        panic!("no turn: {:?}", turn.work);
    };
    let is_done = |event: &InstanceEvent| matches!(event.what, EventKind::TaskCompleted { .. });
    assert!(turn.new.iter().any(is_done), "{:?}", turn.new);
}

/// A worker that gives an item back may have the code for it.
#[tokio::test(start_paused = true)]
async fn durable_35_an_item_that_was_given_back_is_offered_again_beside_a_refusal() {
    let hall = Hall::new();
    let node = hall.start().await;
    let mut first = node.hub.worker(WorkerOptions::default());
    begin_activity(&node, &mut first, "i").await;
    let item = next(&mut first).await;
    let activity = activity(&item);
    let mut second = node.hub.worker(WorkerOptions::default());
    assert!(node.hub.abandon(&item.token).await.unwrap());
    let other = next(&mut second).await;
    let (kind, message) = UNKNOWN_ACTIVITIES[0];
    let missing = Err(FailureDetails::new(kind, message));
    let done = node
        .hub
        .complete_activity(&other.token, "i", activity, missing);
    assert!(done.await.unwrap());
    let item = next(&mut first).await;
    assert!(
        matches!(item.work, WorkPayload::Activity(_)),
        "{:?}",
        item.work
    );
    assert!(does(&node, &item, activity).await);
}

/// Completes an activity of the instance `i`.
async fn does(node: &Node, item: &WorkDelivery, activity: i32) -> bool {
    let done = node
        .hub
        .complete_activity(&item.token, "i", activity, Ok(None));
    done.await.unwrap()
}

//! Payloads up to their limit, and what is over it.

use crate::hall::{Hall, Node, entity, operation, task};
use futures_util::future::join_all;
use steadfast_core::limits;
use steadfast_durable::native::{Context, Functions};
use steadfast_durable::{
    ActionKind, BatchResult, EntityOperation, ErrorKind, EventKind, InstanceStatus, NewInstance,
    TurnAction, TurnResult, WorkPayload, WorkerOptions, WorkerStream,
};

const MIB: usize = 1024 * 1024;

/// A JSON text of so many bytes.
fn text(bytes: usize) -> String {
    format!("\"{}\"", "x".repeat(bytes - 2))
}

/// Notes: `put` keeps as many bytes as it is told, `get` answers what it keeps,
/// `answer` and `grow` answer and keep so many bytes.
fn notes() -> Functions {
    Functions::new()
        .entity("note", |context| {
            Box::pin(async move {
                match context.operation() {
                    "put" => context.set_state(&"x".repeat(context.input::<usize>()? - 2))?,
                    "get" => return Ok(Some(text(context.state::<String>()?.len() + 2))),
                    "answer" => {
                        context.set_state(&"changed")?;
                        return Ok(Some(text(context.input::<usize>()?)));
                    }
                    other => panic!("what is {other}?"),
                }
                Ok(None)
            })
        })
        .orchestration("hold", |cx: Context, _: u64| async move {
            let section = cx.lock([&entity("note", "n")]).await?;
            cx.set_status("inside")?;
            cx.event::<u64>("leave").await?;
            drop(section);
            Ok(0)
        })
        .orchestration("read", |cx: Context, _: u64| async move {
            let found: String = cx.call(&entity("note", "n"), "get", &0).await?;
            Ok(found.len())
        })
}

/// Waits until an instance has a custom status.
async fn inside(node: &Node, instance: &str) {
    loop {
        let found = node.hub.get(instance, false).await.unwrap();
        if found.is_some_and(|found| found.custom_status.is_some()) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

/// Waits until so many requests wait for the entity.
async fn waiting(node: &Node, count: u64) {
    while node
        .hub
        .entity("@note@n", false)
        .await
        .unwrap()
        .unwrap()
        .backlog
        < count
    {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn forty_calls_that_answer_a_mebibyte_each_are_answered_when_the_lock_is_given_back() {
    let hall = Hall::new();
    let (node, _host) = hall.run(notes()).await;
    node.hub
        .call(operation("@note@n", "put", &MIB.to_string()))
        .await
        .unwrap()
        .unwrap();
    node.begin("hold", "h", "0").await;
    inside(&node, "h").await;
    // Some are called by orchestrations, some by clients.
    for number in 0..40 {
        node.begin("read", &format!("r{number}"), "0").await;
    }
    let calls = (0..4).map(|_| node.hub.call(operation("@note@n", "get", "0")));
    let calls = join_all(calls);
    let leave = async {
        waiting(&node, 44).await;
        node.hub
            .raise("h", "leave", Some("0".into()))
            .await
            .unwrap();
    };
    let (answers, ()) = tokio::join!(calls, leave);
    for answer in answers {
        assert_eq!(answer.unwrap().unwrap().unwrap().len(), MIB);
    }
    for number in 0..40 {
        let end = node.hub.ended(&format!("r{number}"), true).await.unwrap();
        assert_eq!(end.output, Some((MIB - 2).to_string()), "{:?}", end.failure);
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_whose_answers_do_not_fit_into_a_commit_is_run_in_halves() {
    let hall = Hall::new();
    let node = hall.start().await;
    let mut worker = node.hub.worker(WorkerOptions::default());
    // It answers a mebibyte to everything; its state says nothing of that.
    let run = async |worker: &mut WorkerStream| {
        let item = worker.next().await.unwrap();
        let WorkPayload::Batch(batch) = item.work else {
            panic!("no batch");
        };
        let count = batch.operations.len();
        let result = BatchResult {
            results: vec![Ok(Some(text(MIB))); count],
            state: Some("0".into()),
            ..BatchResult::default()
        };
        let done = node.hub.complete_batch(&item.token, "@note@n", result);
        assert!(done.await.unwrap());
        count
    };
    node.signal("@note@n", "get", "0").await;
    assert_eq!(run(&mut worker).await, 1);
    drop(worker);
    let calls = (0..40).map(|_| node.hub.call(operation("@note@n", "get", "0")));
    let calls = join_all(calls);
    let work = async {
        waiting(&node, 40).await;
        let mut worker = node.hub.worker(WorkerOptions::default());
        let (mut sizes, mut answered) = (Vec::new(), 0);
        while answered < 40 {
            let count = run(&mut worker).await;
            sizes.push(count);
            let is_in = count * MIB < limits::BATCH_COMMIT_BYTES;
            answered += if is_in { count } else { 0 };
        }
        sizes
    };
    let (answers, sizes) = tokio::join!(calls, work);
    assert_eq!(sizes, [40, 20, 20]);
    for answer in answers {
        assert_eq!(answer.unwrap().unwrap().unwrap().len(), MIB);
    }
}

#[tokio::test(start_paused = true)]
async fn an_operation_whose_answer_or_state_is_too_large_fails_alone_and_changes_nothing() {
    let hall = Hall::new();
    let (node, _host) = hall.run(notes()).await;
    let call = |name: &'static str, bytes: usize| {
        node.hub
            .call(operation("@note@n", name, &bytes.to_string()))
    };
    call("put", 100).await.unwrap().unwrap();
    let largest = call("answer", limits::PAYLOAD_BYTES).await.unwrap();
    assert_eq!(largest.unwrap().unwrap().len(), limits::PAYLOAD_BYTES);
    call("put", 100).await.unwrap().unwrap();
    for name in ["answer", "put"] {
        let failure = call(name, limits::PAYLOAD_BYTES + 1).await.unwrap();
        assert_eq!(failure.unwrap_err().kind, "ResultTooLarge");
        assert_eq!(node.state("@note@n").await, Some(text(100)));
    }
    // The same for an orchestration, and behind a lock, among others.
    node.begin("hold", "h", "0").await;
    inside(&node, "h").await;
    let sizes = [5, limits::PAYLOAD_BYTES + 1, 7];
    let calls = join_all(sizes.map(|bytes| call("answer", bytes)));
    let leave = async {
        waiting(&node, 3).await;
        node.hub
            .raise("h", "leave", Some("0".into()))
            .await
            .unwrap();
    };
    let (answers, ()) = tokio::join!(calls, leave);
    let answers: Vec<_> = answers.into_iter().map(|answer| answer.unwrap()).collect();
    assert_eq!(answers[0], Ok(Some(text(5))));
    assert_eq!(answers[1].as_ref().unwrap_err().kind, "ResultTooLarge");
    assert_eq!(answers[2], Ok(Some(text(7))));
}

/// Echoes, directly and through a child.
fn echoes() -> Functions {
    Functions::new()
        .activity("echo", |_, text: String| async move { Ok(text) })
        .orchestration("echo", |_: Context, text: String| async move { Ok(text) })
        .orchestration("activity", |cx: Context, text: String| async move {
            cx.activity::<_, String>("echo", &text).await
        })
        .orchestration("parent", |cx: Context, text: String| async move {
            cx.child::<_, String>("echo", &text).await
        })
        .orchestration("many", |cx: Context, count: usize| async move {
            let text = "x".repeat(MIB);
            let calls = (0..count).map(|_| cx.activity::<_, String>("echo", &text));
            for answer in join_all(calls).await {
                answer?;
            }
            Ok(count)
        })
        .orchestration("again", |cx: Context, text: String| async move {
            match text.len() {
                0 => cx.continue_as_new(&"x".repeat(limits::PAYLOAD_BYTES - 2)),
                bytes => Ok(bytes),
            }
        })
}

#[tokio::test(start_paused = true)]
async fn payloads_of_the_documented_limit_go_wherever_a_payload_goes() {
    let hall = Hall::new();
    let (node, _host) = hall.run(echoes()).await;
    let largest = text(limits::PAYLOAD_BYTES);
    for name in ["echo", "activity", "parent"] {
        let end = node.run(name, name, &largest).await;
        assert_eq!(
            end.status,
            InstanceStatus::Completed,
            "{name}: {:?}",
            end.failure
        );
        assert_eq!(end.output.map(|output| output.len()), Some(largest.len()));
    }
    let end = node.run("again", "again", "\"\"").await;
    assert_eq!(end.status, InstanceStatus::Completed, "{:?}", end.failure);
}

/// As a worker elsewhere does it.
#[tokio::test(start_paused = true)]
async fn a_worker_brings_results_of_the_documented_limit() {
    let hall = Hall::new();
    let node = hall.start().await;
    let largest = text(limits::PAYLOAD_BYTES);
    let mut worker = node.hub.worker(WorkerOptions::default());
    node.begin("echo", "e", &largest).await;
    let turn = worker.next().await.unwrap();
    let end = TurnResult {
        actions: vec![TurnAction {
            id: -1,
            kind: ActionKind::Complete {
                status: InstanceStatus::Completed,
                result: Some(largest.clone()),
                failure: None,
            },
        }],
        custom_status: Some("1".into()),
        ..TurnResult::default()
    };
    assert!(node.hub.complete_turn(&turn.token, "e", end).await.unwrap());
    let end = node.hub.ended("e", true).await.unwrap();
    assert_eq!(end.output.as_deref(), Some(&*largest));
}

#[tokio::test(start_paused = true)]
async fn a_payload_over_the_documented_limit_is_refused_for_good() {
    let hall = Hall::new();
    let (node, _host) = hall.run(echoes()).await;
    let long = text(limits::PAYLOAD_BYTES + 1);
    let new = NewInstance {
        instance: "i".into(),
        task: task("echo", &long),
        ..NewInstance::default()
    };
    assert_eq!(
        node.hub.start(new).await.unwrap_err().kind(),
        ErrorKind::TooLarge
    );
    node.begin("echo", "e", "\"\"").await;
    let raised = node.hub.raise("e", "x", Some(long.clone())).await;
    assert_eq!(raised.unwrap_err().kind(), ErrorKind::TooLarge);
    let signal = EntityOperation {
        input: Some(long),
        ..operation("@note@n", "put", "1")
    };
    let refused = node.hub.signal(signal).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TooLarge);
}

#[tokio::test(start_paused = true)]
async fn an_instance_whose_turn_or_activity_makes_too_much_fails_at_once() {
    let hall = Hall::new();
    let functions = echoes().activity(
        "long",
        |_, bytes: usize| async move { Ok("x".repeat(bytes)) },
    );
    let functions = functions.orchestration("long", |cx: Context, bytes: usize| async move {
        cx.activity::<_, String>("long", &bytes).await
    });
    let functions = functions.orchestration("direct", |_: Context, bytes: usize| async move {
        Ok("x".repeat(bytes))
    });
    let (node, _host) = hall.run(functions).await;
    let too_long = (limits::PAYLOAD_BYTES + 1).to_string();
    let end = node.run("many", "m", "20").await;
    assert_eq!(end.failure.unwrap().kind, "TurnTooLarge");
    let end = node.run("direct", "d", &too_long).await;
    assert_eq!(end.failure.unwrap().kind, "TurnTooLarge");
    let end = node.run("long", "l", &too_long).await;
    assert_eq!(end.status, InstanceStatus::Failed);
    let events = node.history("l").await;
    let failed = events.iter().find_map(|event| match &event.what {
        EventKind::TaskFailed { failure, .. } => Some(failure.kind.clone()),
        _ => None,
    });
    assert_eq!(failed.as_deref(), Some("ResultTooLarge"));
    let end = node.run("many", "few", "5").await;
    assert_eq!(end.status, InstanceStatus::Completed, "{:?}", end.failure);
}

/// An inbox with more than a commit holds.
#[tokio::test(start_paused = true)]
async fn an_instance_with_a_long_inbox_can_fail() {
    let hall = Hall::new();
    let node = hall.start().await;
    node.begin("echo", "e", "0").await;
    for _ in 0..10 {
        let input = Some(text(5 * MIB));
        node.hub.raise("e", "x", input).await.unwrap();
    }
    let mut worker = node.hub.worker(WorkerOptions::default());
    let turn = worker.next().await.unwrap();
    let WorkPayload::Turn(work) = turn.work else {
        panic!("no turn");
    };
    assert!(work.new.len() < 4, "{}", work.new.len());
    let result = TurnResult {
        actions: (0..20)
            .map(|id| TurnAction {
                id,
                kind: ActionKind::Schedule(task("a", &text(2 * MIB))),
            })
            .collect(),
        ..TurnResult::default()
    };
    node.hub
        .complete_turn(&turn.token, "e", result)
        .await
        .unwrap();
    let end = node.hub.ended("e", true).await.unwrap();
    assert_eq!(end.failure.unwrap().kind, "TurnTooLarge");
}

//! Work on its way to workers and back.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use crate::hall::{Hall, Node, count, operation, task};
use steadfast_core::limits;
use steadfast_durable::native::{Context, FunctionHost, FunctionRunner, Functions, RunResult};
use steadfast_durable::{
    ActionKind, BatchResult, Diagnosis, EventKind, FailureDetails, HistoryPosition, InstanceStatus,
    NewInstance, Tags, Task, Trace, TurnAction, TurnResult, TurnWork, WorkDelivery, WorkFilter,
    WorkFilters, WorkPayload, WorkerOptions, WorkerStream,
};

pub(crate) fn wants(deeds: Vec<ActionKind>) -> TurnResult {
    let numbered = deeds.into_iter().zip(1..);
    TurnResult {
        actions: numbered
            .map(|(deed, id)| TurnAction { id, kind: deed })
            .collect(),
        ..TurnResult::default()
    }
}

fn completed(result: &str) -> ActionKind {
    ActionKind::Complete {
        status: InstanceStatus::Completed,
        result: Some(result.into()),
        failure: None,
    }
}

/// The result of a turn that is the last one.
pub(crate) fn ends() -> TurnResult {
    wants(vec![completed("1")])
}

/// A worker without filters may be given what it has no code for.
#[tokio::test(start_paused = true)]
async fn unknown_functions_fail_by_their_name() {
    let hall = Hall::new();
    let node = hall.start().await;
    let mut worker = node.hub.worker(WorkerOptions::default());
    let runner = FunctionRunner::new(Functions::new());
    node.begin("nobody_has", "i", "1").await;
    let item = worker.next().await.unwrap();
    let RunResult::Turn(result) = runner.run(item.work).await else {
        panic!("no turn");
    };
    let done = node.hub.complete_turn(&item.token, "i", result).await;
    assert!(done.unwrap());
    let end = node.hub.ended("i", true).await.unwrap();
    assert_eq!(end.failure.unwrap().kind, "UnknownOrchestration");

    let item = with_activity(&node, &mut worker, "j").await;
    let RunResult::Activity(run) = runner.run(item.work).await else {
        panic!("no activity");
    };
    let failure = run.result.unwrap_err();
    assert_eq!(failure.kind, "UnknownActivity");
    assert!(failure.message.contains("\"a\""), "{failure}");

    let call = tokio::spawn({
        let hub = node.hub.clone();
        async move { hub.call(operation("@missing@k", "op", "1")).await }
    });
    let item = worker.next().await.unwrap();
    let RunResult::Batch(result) = runner.run(item.work).await else {
        panic!("no batch");
    };
    let done = node.hub.complete_batch(&item.token, "@missing@k", result);
    assert!(done.await.unwrap());
    let failure = call.await.unwrap().unwrap().unwrap_err();
    assert_eq!(failure.kind, "UnknownEntity");
    assert_eq!(node.hub.entity("@missing@k", true).await.unwrap(), None);
}

/// Times of turns rise whatever the wall clock does, and nothing comes early.
#[tokio::test(start_paused = true)]
async fn durable_41_a_clock_that_goes_backwards_changes_no_order() {
    let hall = Hall::new();
    let functions = Functions::new()
        .activity("a", |_, n: u64| async move { Ok(n) })
        .orchestration("steps", |cx: Context, count: u64| async move {
            for n in 0..count {
                cx.activity::<_, u64>("a", &n).await?;
                cx.event::<()>("go").await?;
            }
            let before = cx.now();
            cx.sleep(Duration::from_secs(2)).await;
            let slept = cx.now().due().0 - before.due().0;
            Ok(slept)
        });
    let (node, _host) = hall.run(functions).await;
    node.begin("steps", "i", "6").await;
    for _ in 0..6 {
        hall.clock.set_by(-700);
        node.hub.raise("i", "go", None).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let began = tokio::time::Instant::now();
    let end = node.hub.ended("i", true).await.unwrap();
    assert_eq!(end.status, InstanceStatus::Completed, "{:?}", end.failure);
    let slept: i64 = end.output.unwrap().parse().unwrap();
    assert!(slept >= 2000, "{slept}");
    assert!(began.elapsed() >= Duration::from_secs(2), "not early");
    let mut last = None;
    for event in node.history("i").await {
        if event.what == EventKind::TurnStarted {
            assert!(last < Some(event.at), "{last:?} {event:?}");
            last = Some(event.at);
        }
    }
}

/// Runs the first turn of an instance, which asks for one activity.
pub(crate) async fn with_activity(
    node: &Node,
    worker: &mut WorkerStream,
    id: &str,
) -> WorkDelivery {
    node.begin("o", id, "1").await;
    let turn = worker.next().await.unwrap();
    let result = wants(vec![ActionKind::Schedule(task("a", "1"))]);
    assert!(
        node.hub
            .complete_turn(&turn.token, id, result)
            .await
            .unwrap()
    );
    worker.next().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn durable_04_task_hubs_do_not_see_each_other() {
    let hall = Hall::new();
    let node = hall.start().await;
    let other = node.hubs.hub("other").unwrap();
    node.begin("o", "same", "1").await;
    let new = NewInstance {
        instance: "same".into(),
        task: task("o", "2"),
        ..NewInstance::default()
    };
    other.start(new).await.unwrap();
    let mut worker = other.worker(WorkerOptions::default());
    let item = worker.next().await.unwrap();
    let result = wants(vec![completed("2")]);
    assert!(
        other
            .complete_turn(&item.token, "same", result)
            .await
            .unwrap()
    );
    let here = node.hub.get("same", true).await.unwrap().unwrap();
    let there = other.get("same", true).await.unwrap().unwrap();
    assert_eq!(
        (here.status, here.input.as_deref()),
        (InstanceStatus::Pending, Some("1"))
    );
    assert_eq!(
        (there.status, there.input.as_deref()),
        (InstanceStatus::Completed, Some("2"))
    );
    other.wipe().await.unwrap();
    assert_eq!(other.get("same", false).await.unwrap(), None);
    assert!(node.hub.get("same", false).await.unwrap().is_some());
    assert!(node.hubs.hub("no hub").is_err());
}

#[tokio::test(start_paused = true)]
async fn durable_05_39_results_that_nobody_waits_for_change_nothing() {
    let hall = Hall::new();
    let node = hall.start().await;
    let mut worker = node.hub.worker(WorkerOptions::default());
    let activity = with_activity(&node, &mut worker, "i").await;
    for token in ["nonsense", "t:1:1", "t:ffff:1", "a:9:1:x"] {
        let turn = node
            .hub
            .complete_turn(token, "i", wants(vec![completed("1")]));
        assert!(!turn.await.unwrap(), "{token}");
        let task = node.hub.complete_activity(token, "i", 1, Ok(None));
        assert!(!task.await.unwrap(), "{token}");
        let batch = node
            .hub
            .complete_batch(token, "@e@k", BatchResult::default());
        assert!(!batch.await.unwrap(), "{token}");
        assert!(!node.hub.abandon(token).await.unwrap(), "{token}");
    }
    let done = |n: &str| Ok(Some(n.to_owned()));
    assert!(
        node.hub
            .complete_activity(&activity.token, "i", 1, done("one"))
            .await
            .unwrap()
    );
    assert!(
        !node
            .hub
            .complete_activity(&activity.token, "i", 1, done("two"))
            .await
            .unwrap()
    );
    let turn = worker.next().await.unwrap();
    let result = || wants(vec![completed("1")]);
    assert!(
        node.hub
            .complete_turn(&turn.token, "i", result())
            .await
            .unwrap()
    );
    assert!(
        !node
            .hub
            .complete_turn(&turn.token, "i", result())
            .await
            .unwrap()
    );
    let events = node.history("i").await;
    assert_eq!(
        count(&events, |w| matches!(w, EventKind::TaskCompleted { .. })),
        1
    );
    assert_eq!(
        count(&events, |w| matches!(w, EventKind::Completed { .. })),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn durable_06_workers_without_tokens_are_understood() {
    let hall = Hall::new();
    let node = hall.start().await;
    let mut worker = node.hub.worker(WorkerOptions::default());
    node.begin("o", "i", "1").await;
    worker.next().await.unwrap();
    let result = wants(vec![ActionKind::Schedule(task("a", "1"))]);
    assert!(node.hub.complete_turn("", "i", result).await.unwrap());
    worker.next().await.unwrap();
    assert!(
        node.hub
            .complete_activity("", "i", 1, Ok(None))
            .await
            .unwrap()
    );
    worker.next().await.unwrap();
    assert!(
        node.hub
            .complete_turn("", "i", wants(vec![completed("9")]))
            .await
            .unwrap()
    );
    let end = node.hub.ended("i", true).await.unwrap();
    assert_eq!(end.output.as_deref(), Some("9"));
    node.signal("@e@k", "op", "1").await;
    worker.next().await.unwrap();
    let result = BatchResult {
        results: vec![Ok(None)],
        state: Some("1".into()),
        ..BatchResult::default()
    };
    assert!(node.hub.complete_batch("", "@e@k", result).await.unwrap());
    assert_eq!(node.state("@e@k").await.as_deref(), Some("1"));
}

#[tokio::test(start_paused = true)]
async fn durable_07_a_result_in_parts_counts_with_its_last_part() {
    let hall = Hall::new();
    let node = hall.start().await;
    let mut worker = node.hub.worker(WorkerOptions::default());
    node.begin("o", "i", "1").await;
    let turn = worker.next().await.unwrap();
    let part = |name: &str| wants(vec![ActionKind::Schedule(task(name, "1"))]);
    // A part that is sent again replaces the first one.
    for (index, name) in [(1, "b"), (0, "x"), (0, "a")] {
        let kept = node.hub.complete_chunk(&turn.token, "i", index, part(name));
        assert!(kept.await.unwrap());
    }
    assert!(node.history("i").await.is_empty());
    assert!(
        node.hub
            .complete_turn(&turn.token, "i", part("c"))
            .await
            .unwrap()
    );
    let events = node.history("i").await;
    let names: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.what {
            EventKind::TaskScheduled(task) => Some(task.name.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(names, ["a", "b", "c"]);
    // Parts of a delivery that was lost are forgotten.
    node.begin("o", "j", "1").await;
    let turn = loop {
        let item = worker.next().await.unwrap();
        if matches!(&item.work, WorkPayload::Turn(work) if work.instance == "j") {
            break item;
        }
    };
    assert!(
        node.hub
            .complete_chunk(&turn.token, "j", 0, part("lost"))
            .await
            .unwrap()
    );
    drop(worker);
    let mut worker = node.hub.worker(WorkerOptions::default());
    let turn = loop {
        let item = worker.next().await.unwrap();
        if matches!(&item.work, WorkPayload::Turn(work) if work.instance == "j") {
            break item;
        }
    };
    assert!(
        node.hub
            .complete_turn(&turn.token, "j", part("kept"))
            .await
            .unwrap()
    );
    let events = node.history("j").await;
    assert_eq!(
        count(&events, |w| matches!(w, EventKind::TaskScheduled(_))),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn durable_34_tags_version_and_trace_reach_the_worker() {
    let hall = Hall::new();
    let node = hall.start().await;
    let sent = Task {
        name: "o".into(),
        version: Some("1.2".into()),
        input: Some("1".into()),
        trace: Some(Trace {
            parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into(),
            span: "b7ad6b7169203331".into(),
            state: None,
        }),
        tags: Tags::from([("colour".into(), "blue".into())]),
    };
    let new = NewInstance {
        instance: "i".into(),
        task: sent.clone(),
        ..NewInstance::default()
    };
    node.hub.start(new).await.unwrap();
    let mut worker = node.hub.worker(WorkerOptions::default());
    let item = worker.next().await.unwrap();
    let WorkPayload::Turn(work) = item.work else {
        panic!("a turn was expected");
    };
    let EventKind::Started(start) = &work.new[1].what else {
        panic!("the start was expected");
    };
    assert_eq!((&start.task, start.instance.as_str()), (&sent, "i"));
    let result = wants(vec![ActionKind::Schedule(sent.clone())]);
    node.hub
        .complete_turn(&item.token, "i", result)
        .await
        .unwrap();
    let WorkPayload::Activity(work) = worker.next().await.unwrap().work else {
        panic!("an activity was expected");
    };
    assert_eq!(work.task, sent);
}

#[tokio::test(start_paused = true)]
async fn durable_35_filters_route_by_name_and_version_and_the_rest_waits() {
    let hall = Hall::new();
    let node = hall.start().await;
    let filter = |name: &str, versions: &[&str]| WorkFilter {
        name: name.into(),
        versions: versions.iter().map(|v| (*v).to_owned()).collect(),
    };
    let terms = |filters| WorkerOptions {
        filters: Some(filters),
        ..WorkerOptions::default()
    };
    let mut old = node.hub.worker(terms(WorkFilters {
        orchestrations: vec![filter("o", &["", "1"])],
        ..WorkFilters::default()
    }));
    let start = async |id: &str, name: &str, version: Option<&str>| {
        let new = NewInstance {
            instance: id.into(),
            task: Task {
                name: name.into(),
                version: version.map(str::to_owned),
                ..Task::default()
            },
            ..NewInstance::default()
        };
        node.hub.start(new).await.unwrap();
    };
    let instance = |item: WorkDelivery| match item.work {
        WorkPayload::Turn(work) => work.instance,
        WorkPayload::Activity(work) => work.instance,
        WorkPayload::Batch(work) => work.entity,
    };
    start("none", "o", None).await;
    assert_eq!(instance(old.next().await.unwrap()), "none");
    start("one", "o", Some("1")).await;
    assert_eq!(instance(old.next().await.unwrap()), "one");
    start("two", "o", Some("2")).await;
    start("other", "p", None).await;
    node.signal("@counter@k", "add", "1").await;
    let nothing = tokio::time::timeout(Duration::from_secs(60), old.next()).await;
    assert!(nothing.is_err());
    let waits = node.hub.diagnose("two").await.unwrap();
    let without_code = |name: &str| Diagnosis::NoWorker {
        name: name.into(),
        has_workers: true,
    };
    assert_eq!(waits, without_code("o"));
    let counter = node.hub.missing_worker("@Counter@k", "counter");
    assert_eq!(counter, Some(without_code("counter")));
    assert_eq!(
        node.hub.missing_worker("none", "o"),
        None,
        "a worker has it"
    );
    assert_eq!(
        node.hub.get("two", false).await.unwrap().unwrap().status,
        InstanceStatus::Pending
    );
    let mut new = node.hub.worker(terms(WorkFilters {
        orchestrations: vec![filter("o", &["2"])],
        ..WorkFilters::default()
    }));
    assert_eq!(instance(new.next().await.unwrap()), "two");
    assert_eq!(node.hub.diagnose("two").await.unwrap(), Diagnosis::Running);
    let mut entities = node.hub.worker(terms(WorkFilters {
        entities: ["counter".to_owned()].into(),
        ..WorkFilters::default()
    }));
    assert_eq!(instance(entities.next().await.unwrap()), "@counter@k");
    let mut all = node.hub.worker(WorkerOptions::default());
    assert_eq!(instance(all.next().await.unwrap()), "other");
}

#[tokio::test(start_paused = true)]
async fn a_worker_gets_no_more_than_it_takes() {
    let hall = Hall::new();
    let node = hall.start().await;
    for number in 0..5 {
        node.begin("o", &format!("i{number}"), "1").await;
    }
    let mut worker = node.hub.worker(WorkerOptions {
        turns: 2,
        ..WorkerOptions::default()
    });
    let mut out = vec![worker.next().await.unwrap(), worker.next().await.unwrap()];
    let nothing = tokio::time::timeout(Duration::from_secs(1), worker.next()).await;
    assert!(nothing.is_err());
    for _ in 0..3 {
        let item = out.remove(0);
        let WorkPayload::Turn(work) = &item.work else {
            panic!("a turn was expected");
        };
        let result = wants(vec![completed("1")]);
        node.hub
            .complete_turn(&item.token, &work.instance, result)
            .await
            .unwrap();
        out.push(worker.next().await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn durable_36_an_activity_of_a_dead_worker_runs_again_and_counts_once() {
    let hall = Hall::new();
    let node = hall.start().await;
    let mut dying = node.hub.worker(WorkerOptions::default());
    let activity = with_activity(&node, &mut dying, "i").await;
    let mut other = node.hub.worker(WorkerOptions {
        turns: 1,
        activities: 1,
        batches: 1,
        ..WorkerOptions::default()
    });
    drop(dying);
    let began = tokio::time::Instant::now();
    let again = other.next().await.unwrap();
    let waited = began.elapsed();
    assert!(waited >= Duration::from_secs(5) && waited < Duration::from_secs(10));
    // The first worker was only away; its result comes first and counts.
    assert!(
        node.hub
            .complete_activity(&activity.token, "i", 1, Ok(None))
            .await
            .unwrap()
    );
    assert!(
        !node
            .hub
            .complete_activity(&again.token, "i", 1, Ok(None))
            .await
            .unwrap()
    );
    let turn = other.next().await.unwrap();
    node.hub
        .complete_turn(&turn.token, "i", wants(Vec::new()))
        .await
        .unwrap();
    let events = node.history("i").await;
    assert_eq!(
        count(&events, |w| matches!(w, EventKind::TaskCompleted { .. })),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn durable_37_a_turn_of_a_dead_or_silent_worker_goes_to_another() {
    let hall = Hall::new();
    let node = hall.start().await;
    node.begin("o", "i", "1").await;
    let mut dying = node.hub.worker(WorkerOptions::default());
    let first = dying.next().await.unwrap();
    let mut silent = node.hub.worker(WorkerOptions::default());
    drop(dying);
    let second = silent.next().await.unwrap();
    let mut third = node.hub.worker(WorkerOptions::default());
    // One that does not answer loses its turn after two minutes.
    let began = tokio::time::Instant::now();
    let item = tokio::select! {
        item = third.next() => item.unwrap(),
        item = silent.next() => item.unwrap(),
    };
    assert!(began.elapsed() >= Duration::from_secs(119));
    for late in [first, second] {
        let result = wants(vec![completed("late")]);
        assert!(
            !node
                .hub
                .complete_turn(&late.token, "i", result)
                .await
                .unwrap()
        );
    }
    let result = wants(vec![completed("good")]);
    assert!(
        node.hub
            .complete_turn(&item.token, "i", result)
            .await
            .unwrap()
    );
    let end = node.hub.ended("i", true).await.unwrap();
    assert_eq!(end.output.as_deref(), Some("good"));
}

#[tokio::test(start_paused = true)]
async fn durable_38_what_is_given_back_comes_again_later_and_later() {
    let hall = Hall::new();
    let node = hall.start().await;
    node.begin("o", "i", "1").await;
    let mut worker = node.hub.worker(WorkerOptions::default());
    let mut item = worker.next().await.unwrap();
    for pause in [100, 200, 400, 800] {
        let began = tokio::time::Instant::now();
        assert!(node.hub.abandon(&item.token).await.unwrap());
        item = worker.next().await.unwrap();
        let waited = began.elapsed().as_millis();
        assert!(
            (pause..pause + 50).contains(&waited),
            "{waited} ms instead of {pause}"
        );
    }
    let result = wants(vec![completed("1")]);
    assert!(
        node.hub
            .complete_turn(&item.token, "i", result)
            .await
            .unwrap()
    );
}

#[tokio::test(start_paused = true)]
async fn an_item_that_never_comes_back_is_poison() {
    let mut hall = Hall::new();
    hall.delivery.is_poison_failed = true;
    let node = hall.start().await;
    node.begin("o", "i", "1").await;
    for _ in 0..20 {
        let mut worker = node.hub.worker(WorkerOptions::default());
        worker.next().await.unwrap();
    }
    let end = node.hub.ended("i", false).await.unwrap();
    assert_eq!(end.failure.unwrap().kind, "PoisonedWorkItem");
}

/// An item is not to blame if its partition has too much to write.
#[tokio::test(start_paused = true)]
async fn results_that_a_busy_disk_refuses_are_tried_later_and_are_no_poison() {
    let mut hall = Hall::new();
    hall.log_limit = Some(100_000);
    let node = hall.start().await;
    node.begin("o", "i", "1").await;
    let mut worker = node.hub.worker(WorkerOptions::default());
    let mut item = worker.next().await.unwrap();
    let long = format!("\"{}\"", "x".repeat(200_000));
    node.begin("o", "long", &long).await;
    let _other = worker.next().await.unwrap();
    // It is poison after 20 deliveries that were lost.
    for times in 0..25 {
        let done = node.hub.complete_turn(&item.token, "i", ends()).await;
        assert_eq!(done.unwrap_err().code().0, "STF-2008");
        let began = tokio::time::Instant::now();
        // The other one comes again each time that its lease is over.
        item = loop {
            let next = worker.next().await.unwrap();
            if matches!(&next.work, WorkPayload::Turn(turn) if turn.instance == "i") {
                break next;
            }
        };
        let pause = (100 * 2u128.pow(times)).min(30_000);
        let waited = began.elapsed().as_millis();
        assert!(
            (pause..pause + 50).contains(&waited),
            "{waited} ms instead of {pause}"
        );
    }
}

/// Work is not done again because the log is full for a while.
#[tokio::test(start_paused = true)]
async fn a_result_waits_for_room_in_the_log_and_a_client_is_told() {
    let mut hall = Hall::new();
    hall.log_limit = Some(100_000);
    let node = hall.start().await;
    node.begin("o", "i", "1").await;
    let mut worker = node.hub.worker(WorkerOptions::default());
    let item = worker.next().await.unwrap();
    let long = format!("\"{}\"", "x".repeat(200_000));
    node.begin("o", "long", &long).await;
    let done = node.hub.complete_turn(&item.token, "i", ends());
    tokio::pin!(done);
    let early = tokio::time::timeout(limits::RESULT_WAIT / 2, &mut done).await;
    assert!(early.is_err(), "{early:?}");
    // Virtual time would run on while a thread flushes.
    tokio::time::resume();
    let began = tokio::time::Instant::now();
    for number in 0..50 {
        let refused = node
            .hub
            .start(NewInstance {
                instance: format!("refused-{number}"),
                task: task("o", "1"),
                ..NewInstance::default()
            })
            .await;
        assert_eq!(refused.unwrap_err().code().0, "STF-2008");
    }
    assert!(began.elapsed() < Duration::from_secs(1));
    node.flush().await;
    assert!(done.await.unwrap());
    let end = node.hub.ended("i", false).await.unwrap();
    assert_eq!(end.status, InstanceStatus::Completed);
}

/// Results that wait are held in memory, so that they are limited.
#[tokio::test(start_paused = true)]
async fn results_beyond_what_may_wait_are_refused() {
    let mut hall = Hall::new();
    hall.log_limit = Some(100_000);
    let node = hall.start().await;
    let mut worker = node.hub.worker(WorkerOptions::default());
    let mut items = Vec::new();
    for instance in ["a", "b", "c", "d"] {
        node.begin("o", instance, "1").await;
        items.push((instance, worker.next().await.unwrap()));
    }
    let long = format!("\"{}\"", "x".repeat(200_000));
    node.begin("o", "long", &long).await;
    // A result is stored three times, so the fourth exceeds what may wait.
    let output = format!("\"{}\"", "x".repeat(limits::RESULT_WAIT_BYTES / 12));
    let (hub, result) = (&node.hub, wants(vec![completed(&output)]));
    let results = items.iter().map(|(instance, item)| {
        let result = result.clone();
        async move { hub.complete_turn(&item.token, instance, result).await }
    });
    let mut results: FuturesUnordered<_> = results.collect();
    let refused = tokio::time::timeout(limits::RESULT_WAIT / 2, results.next()).await;
    assert_eq!(refused.unwrap().unwrap().unwrap_err().code().0, "STF-2008");
    let other = tokio::time::timeout(limits::RESULT_WAIT / 4, results.next()).await;
    assert!(other.is_err(), "{other:?}");
    tokio::time::resume();
    for _ in 0..3 {
        node.flush().await;
        assert!(results.next().await.unwrap().unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn results_of_a_batch_may_be_fewer_than_its_operations() {
    let hall = Hall::new();
    let node = hall.start().await;
    for n in ["1", "2", "3"] {
        node.signal("@e@k", "op", n).await;
    }
    let mut worker = node.hub.worker(WorkerOptions::default());
    let inputs = |item: &WorkDelivery| match &item.work {
        WorkPayload::Batch(work) => work
            .operations
            .iter()
            .map(|op| op.operation.input.clone().unwrap())
            .collect::<Vec<_>>(),
        _ => panic!("a batch was expected"),
    };
    let mut item = worker.next().await.unwrap();
    // The first signal may have been given out alone.
    while inputs(&item) != ["1", "2", "3"] {
        node.hub.abandon(&item.token).await.unwrap();
        item = worker.next().await.unwrap();
    }
    let some = BatchResult {
        results: vec![Ok(None), Ok(None)],
        state: Some("2".into()),
        ..BatchResult::default()
    };
    assert!(
        node.hub
            .complete_batch(&item.token, "@e@k", some)
            .await
            .unwrap()
    );
    let item = worker.next().await.unwrap();
    assert_eq!(inputs(&item), ["3"]);
    // The batch as a whole fails: the state stays, and the operation has failed.
    let failed = BatchResult {
        failure: Some(FailureDetails::new("Worker", "broken")),
        ..BatchResult::default()
    };
    assert!(
        node.hub
            .complete_batch(&item.token, "@e@k", failed)
            .await
            .unwrap()
    );
    let view = node.hub.entity("@e@k", true).await.unwrap().unwrap();
    assert_eq!((view.state.as_deref(), view.backlog), (Some("2"), 0));
}

#[tokio::test(start_paused = true)]
async fn clients_wait_for_room_in_front_of_an_entity_and_are_told_when_there_is_none() {
    let hall = Hall::new();
    let node = hall.start().await;
    for number in 0..10_000 {
        node.signal("@e@k", "op", &number.to_string()).await;
    }
    let began = tokio::time::Instant::now();
    let refused = node
        .hub
        .signal(operation("@e@k", "op", "x"))
        .await
        .unwrap_err();
    assert_eq!(refused.code().0, "STF-5105");
    assert!(began.elapsed() >= Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn leaving_waits_for_what_is_out_and_ends_the_streams() {
    let hall = Hall::new();
    let node = hall.start().await;
    node.begin("o", "i", "1").await;
    let mut worker = node.hub.worker(WorkerOptions::default());
    let item = worker.next().await.unwrap();
    let hubs = node.hubs.clone();
    let leaving = tokio::spawn(async move { hubs.leave(Duration::from_secs(10)).await });
    tokio::task::yield_now().await;
    node.begin("o", "j", "1").await;
    assert!(!leaving.is_finished());
    let result = wants(vec![completed("1")]);
    assert!(
        node.hub
            .complete_turn(&item.token, "i", result)
            .await
            .unwrap()
    );
    leaving.await.unwrap();
    assert!(worker.next().await.is_none());
    // What was not given out is there for the next process.
    drop((worker, node));
    let functions = Functions::new().orchestration("o", |_: Context, n: i64| async move { Ok(n) });
    let node = hall.start().await;
    let _host = FunctionHost::start(node.hub.clone(), functions);
    assert_eq!(
        node.hub.ended("j", true).await.unwrap().output.as_deref(),
        Some("1")
    );
}

/// The next turn that a worker is given, and its token.
async fn next_turn(worker: &mut WorkerStream) -> (String, TurnWork) {
    let item = worker.next().await.unwrap();
    match item.work {
        WorkPayload::Turn(turn) => (item.token, *turn),
        other => panic!("a turn was expected, not {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_mindful_worker_is_sent_the_history_only_if_it_asks() {
    let hall = Hall::new();
    let node = hall.start().await;
    let terms = WorkerOptions {
        caches_instances: true,
        ..WorkerOptions::default()
    };
    let mut worker = node.hub.worker(terms.clone());
    let seen = |turn: &TurnWork| turn.past.iter().map(|events| events.len()).sum::<usize>();
    node.begin("o", "i", "1").await;
    let (token, first) = next_turn(&mut worker).await;
    assert_eq!((first.remembered, seen(&first)), (None, 0));
    let went_on = TurnResult::default;
    let done = node.hub.complete_turn(&token, "i", went_on()).await;
    assert!(done.unwrap());

    node.hub.raise("i", "e", None).await.unwrap();
    let (token, turn) = next_turn(&mut worker).await;
    // The beginning of the turn, that of the instance, and the end of the turn.
    let past = HistoryPosition {
        events: 3,
        turn: first.new[0].at,
    };
    assert_eq!((turn.remembered, seen(&turn)), (Some(past), 0));
    let forgotten = TurnResult {
        needs_history: true,
        ..TurnResult::default()
    };
    let done = node.hub.complete_turn(&token, "i", forgotten).await;
    assert!(done.unwrap());
    let (token, whole) = next_turn(&mut worker).await;
    assert_eq!((whole.remembered, seen(&whole)), (None, 3));
    let done = node.hub.complete_turn(&token, "i", went_on()).await;
    assert!(done.unwrap());

    // Another worker has never had it, whatever it remembers.
    drop(worker);
    let mut other = node.hub.worker(terms);
    node.hub.raise("i", "e", None).await.unwrap();
    let (_, turn) = next_turn(&mut other).await;
    assert_eq!((turn.remembered, seen(&turn)), (None, 6));
}

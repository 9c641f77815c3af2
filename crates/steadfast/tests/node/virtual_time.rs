//! Nodes on virtual time.
//!
//! What fires when the time is moved, and what is waited for.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use serde::{Deserialize, Serialize};
use steadfast::Node;
use steadfast::clock::{SteppedClock, Timestamp};
use steadfast::durable::{
    ActivityContext, Context, EntityOperation, FailureDetails, InstanceStatus, NewInstance, Task,
    entity, signal_message,
};
use steadfast::events::{EventDataBatch, EventHubDefinition, EventRetention};
use steadfast::jobs::recurrence::{Frequency, JobTiming, Recurrence};
use steadfast::jobs::{
    CollectionDraft, CollectionId, JobAction, JobDraft, JobId, JobPolicy, JobRetry, PageRequest,
    Precondition, Target,
};
use steadfast::testing::{AdvanceOptions, ErrorKind, TestNode};
use tokio::sync::Semaphore;

const DAY: Duration = Duration::from_secs(86_400);
const DAY_MS: i64 = 86_400_000;
const MS: Duration = Duration::from_millis(1);

#[derive(Default, Serialize, Deserialize)]
struct Counter(i64);

#[entity]
impl Counter {
    fn add(&mut self, more: i64) {
        self.0 += more;
    }

    fn get(&self) -> i64 {
        self.0
    }
}

async fn wait(cx: Context, days: u64) -> Result<i64, FailureDetails> {
    cx.sleep(days as u32 * DAY).await;
    Ok(cx.now().due().0)
}

/// Every day an activity, then a night's sleep; returns when each day began.
async fn days(cx: Context, days: u64) -> Result<Vec<i64>, FailureDetails> {
    let mut mornings = Vec::new();
    for _ in 0..days {
        mornings.push(cx.now().due().0);
        let () = cx.activity("work", &()).await?;
        cx.sleep(DAY).await;
    }
    Ok(mornings)
}

/// Takes its time in the world outside.
async fn work(_: ActivityContext, (): ()) -> Result<(), FailureDetails> {
    tokio::time::sleep(20 * MS).await;
    Ok(())
}

async fn start<T: Serialize>(world: &TestNode, name: &str, input: &T) -> String {
    let hub = world.node().task_hubs().hub("default").unwrap();
    let task = Task::new(name, input).unwrap();
    hub.start(NewInstance::of(task)).await.unwrap()
}

async fn status(world: &TestNode, id: &str) -> (InstanceStatus, Option<String>) {
    let hub = world.node().task_hubs().hub("default").unwrap();
    let found = hub.get(id, true).await.unwrap().unwrap();
    (found.status, found.output)
}

#[tokio::test]
async fn a_wait_of_three_days_ends_when_the_time_is_there_and_not_before() {
    let world = TestNode::builder().orchestration("wait", wait);
    let world = world.start().await.unwrap();
    let begin = world.now();
    let id = start(&world, "wait", &3).await;
    let early = world.advance(3 * DAY - MS).await.unwrap();
    assert_eq!((early.moments, early.fired_count), (0, 0));
    assert_eq!(status(&world, &id).await.0, InstanceStatus::Running);
    let report = world.advance(MS).await.unwrap();
    assert_eq!((report.moments, report.fired_count), (1, 1));
    assert_eq!(report.fired[0].at, begin.plus(3 * DAY));
    assert_eq!(
        (report.fired[0].service, &*report.fired[0].name),
        ("durable", "default")
    );
    assert_eq!(report.fired[0].key, id);
    let ended = (begin.0 + 3 * DAY_MS).to_string();
    let end = status(&world, &id).await;
    assert_eq!(end, (InstanceStatus::Completed, Some(ended)));
}

#[tokio::test]
async fn timers_that_are_set_on_the_way_fire_on_the_way() {
    let world = TestNode::builder().orchestration("days", days);
    let world = world.activity("work", work).start().await.unwrap();
    let begin = world.now().0;
    let id = start(&world, "days", &10).await;
    let report = world.advance(10 * DAY).await.unwrap();
    assert_eq!(report.moments, 10);
    let (status, output) = status(&world, &id).await;
    assert_eq!(status, InstanceStatus::Completed);
    let mornings: Vec<i64> = serde_json::from_str(&output.unwrap()).unwrap();
    // The turn after the activity is a millisecond later than the one before it.
    let expected: Vec<_> = (0..10).map(|day| begin + day * (DAY_MS + 1)).collect();
    assert_eq!(mornings, expected);
}

#[tokio::test]
async fn several_short_moves_do_the_same_as_a_long_one() {
    let mut ends = BTreeSet::new();
    for moves in [1, 6, 24] {
        let world = TestNode::builder().orchestration("days", days);
        let world = world.activity("work", work).start().await.unwrap();
        for count in [2, 3] {
            let task = Task::new("days", &count).unwrap();
            let new = NewInstance {
                instance: format!("days {count}"),
                ..NewInstance::of(task)
            };
            let hub = world.node().task_hubs().hub("default").unwrap();
            hub.start(new).await.unwrap();
        }
        let mut fired = Vec::new();
        for _ in 0..moves {
            fired.extend(world.advance(6 * DAY / moves).await.unwrap().fired);
        }
        ends.insert((fired, world.now().0, status(&world, "days 3").await.1));
    }
    assert_eq!(ends.len(), 1, "{ends:#?}");
}

fn collection() -> CollectionId {
    CollectionId::new("subscription", "group", "nightly").unwrap()
}

/// A job that adds 1 to the counter `runs`.
fn daily(start: Timestamp, count: u32) -> (JobId, JobDraft) {
    let id = collection().job("count").unwrap();
    let operation = EntityOperation {
        name: "add".into(),
        target: "@counter@runs".into(),
        input: Some("1".into()),
        ..EntityOperation::default()
    };
    let letter = signal_message("default", operation).unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let target = Target::Inside {
        kind: letter.to.kind.0,
        name: text(&letter.to.name),
        key: text(&letter.to.key),
        body: letter.body.to_vec(),
        times: Vec::new(),
    };
    let recurrence = Recurrence {
        frequency: Frequency::Day,
        interval: 1,
        count: Some(count),
        end: None,
        schedule: None,
    };
    let draft = JobDraft {
        id: id.clone(),
        document: "{}".into(),
        timing: JobTiming {
            start: Some(start.0),
            recurrence: Some(recurrence),
            ..JobTiming::default()
        },
        main: JobAction {
            target,
            retry: JobRetry::default(),
        },
        error: None,
        dead_letter: None,
        policy: JobPolicy::default(),
        state: None,
    };
    (id, draft)
}

#[tokio::test]
async fn a_daily_job_runs_each_day_of_a_month_at_its_time_of_day() {
    let world = TestNode::builder()
        .entity::<Counter>()
        .start()
        .await
        .unwrap();
    let jobs = world.node().jobs();
    let home = CollectionDraft {
        id: collection(),
        document: "{}".into(),
        most_jobs: None,
        is_enabled: None,
    };
    jobs.put_collection(home, Precondition::Nothing)
        .await
        .unwrap();
    let first = world.now().plus(Duration::from_secs(5 * 3600));
    let (id, draft) = daily(first, 100);
    jobs.put(draft, Precondition::Nothing).await.unwrap();

    let report = world.advance(30 * DAY).await.unwrap();

    let hub = world.node().task_hubs().hub("default").unwrap();
    assert_eq!(Counter::at("runs").unwrap().get(&hub).await, Ok(30));
    let runs = report.fired.iter().filter(|timer| timer.service == "jobs");
    let runs: Vec<_> = runs.collect();
    assert_eq!(runs[0].name, "subscription/group/nightly");
    let runs: Vec<_> = runs.iter().map(|timer| timer.at.0).collect();
    let expected: Vec<_> = (0..30).map(|day| first.0 + day * DAY_MS).collect();
    assert_eq!(runs, expected);
    let history = jobs.history(&id, &PageRequest::first(1000)).await.unwrap();
    let mut started: Vec<_> = history.items.iter().map(|item| item.started).collect();
    started.sort_unstable();
    assert_eq!(started, expected);
}

#[tokio::test]
async fn events_leave_when_their_retention_ends() {
    let week = EventRetention {
        age: Some(7 * DAY),
        bytes: None,
    };
    let hub = EventHubDefinition::new("telemetry", 1).retention(week);
    let world = TestNode::builder().event_hub(hub).start().await.unwrap();
    let hubs = world.node().event_hubs();
    let sender = hubs.sender("telemetry", None).await.unwrap();
    let mut batch = EventDataBatch::new();
    batch.push(b"21 degrees").unwrap();
    sender.send(batch).await.unwrap();
    world.advance(7 * DAY - MS).await.unwrap();
    let before = hubs.partition("telemetry", 0).await.unwrap();
    assert!(!before.is_empty, "{before:?}");
    world.advance(DAY).await.unwrap();
    let after = hubs.partition("telemetry", 0).await.unwrap();
    assert!(after.is_empty, "{after:?}");
}

/// Gives up an activity after a day.
async fn impatient(cx: Context, (): ()) -> Result<&'static str, FailureDetails> {
    let activity = pin!(cx.activity::<_, ()>("hang", &()));
    let pause = pin!(cx.sleep(DAY));
    Ok(match select(activity, pause).await {
        Either::Left(_) => "done",
        Either::Right(_) => "too late",
    })
}

#[tokio::test]
async fn an_activity_that_hangs_is_reported_and_the_time_stays() {
    let gate = Arc::new(Semaphore::new(0));
    let own = Arc::clone(&gate);
    let hang = move |_: ActivityContext, (): ()| {
        let gate = Arc::clone(&own);
        async move {
            gate.acquire().await.unwrap().forget();
            Ok::<(), FailureDetails>(())
        }
    };
    let world = TestNode::builder().orchestration("impatient", impatient);
    let world = world.activity("hang", hang).start().await.unwrap();
    let begin = world.now();
    let id = start(&world, "impatient", &()).await;
    let short = AdvanceOptions {
        limit: Duration::from_millis(300),
        ..AdvanceOptions::default()
    };
    let error = world.advance_with(DAY, short).await.unwrap_err();
    assert_eq!(error.code().0, "STF-7072");
    let text = error.to_string();
    assert!(text.contains("not ended: 1 x activity running"), "{text}");
    assert_eq!(world.now(), begin);

    // A test of the time-out lets it hang.
    let past = AdvanceOptions {
        leaves_activities: true,
        ..AdvanceOptions::default()
    };
    world.advance_with(DAY, past).await.unwrap();
    let end = status(&world, &id).await;
    assert_eq!(end.1.as_deref(), Some("\"too late\""));
    gate.add_permits(1);
    world.settle().await.unwrap();
}

#[tokio::test]
async fn a_turn_that_no_worker_takes_is_reported() {
    let world = TestNode::builder().start().await.unwrap();
    start(&world, "missing", &()).await;
    let short = AdvanceOptions {
        limit: Duration::from_millis(200),
        ..AdvanceOptions::default()
    };
    let error = world.advance_with(DAY, short).await.unwrap_err();
    let text = error.to_string();
    let expected = "1 x turn of an orchestration waiting for a worker";
    assert!(text.contains(expected), "{text}");
    let steadfast::Error::Testing(error) = error else {
        panic!("{error:?}")
    };
    let ErrorKind::Unsettled { open, .. } = error.kind() else {
        panic!("{error:?}")
    };
    assert_eq!(open.queued.orchestrations, 1);
}

#[tokio::test]
async fn the_time_goes_neither_back_nor_further_than_ten_years() {
    let world = TestNode::builder().start().await.unwrap();
    let now = world.now();
    let back = world.advance_to(Timestamp(now.0 - 1)).await.unwrap_err();
    assert_eq!(back.code().0, "STF-7071");
    let far = world.advance(4000 * DAY).await.unwrap_err();
    assert_eq!(far.code().0, "STF-7071");
    assert_eq!(world.now(), now);
    world.advance_to(now).await.unwrap();
}

#[tokio::test]
async fn a_transaction_and_its_lock_outlive_a_year() {
    let world = TestNode::builder().start().await.unwrap();
    let bank = world.node().singleton("bank").await.unwrap();
    let accounts = bank.dictionary::<String, i64>("accounts").await.unwrap();
    let moved = bank.transact(async |mut tx| {
        accounts.set(&mut tx, "alice", 1).await?;
        world.advance(365 * DAY).await.unwrap();
        tx.commit(()).await
    });
    moved.await.unwrap();
    let read = bank.transact(async |mut tx| {
        let found = accounts.get(&mut tx, "alice").await?;
        tx.commit(found.map(|found| *found)).await
    });
    assert_eq!(read.await.unwrap(), Some(1));
}

#[tokio::test]
async fn a_move_stops_at_each_of_a_thousand_moments() {
    let world = TestNode::builder().orchestration("beat", async |cx: Context, n: u64| {
        for _ in 0..n {
            cx.sleep(Duration::from_secs(60)).await;
        }
        Ok(n)
    });
    let world = world.start().await.unwrap();
    let id = start(&world, "beat", &1_000).await;
    let report = world.advance(Duration::from_secs(60_000)).await.unwrap();
    assert_eq!((report.moments, report.fired_count), (1_000, 1_000));
    assert_eq!(status(&world, &id).await.0, InstanceStatus::Completed);
}

#[tokio::test]
async fn state_that_nodes_share_has_no_virtual_time() {
    let clock = SteppedClock::starting_at(Timestamp(0));
    let builder = Node::builder().postgres("postgres://127.0.0.1:1/none");
    let Err(error) = builder.virtual_time(clock).start().await else {
        panic!("a node on PostgreSQL has started on virtual time");
    };
    assert_eq!(error.code().0, "STF-7002", "{error}");
}

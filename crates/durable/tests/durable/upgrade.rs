//! Workers of two versions side by side.

use std::cell::RefCell;
use std::time::Duration;

use crate::delivery::{ends, wants};
use crate::hall::{Hall, Node, task};
use futures_util::future::join_all;
use steadfast_durable::{
    ActionKind, InstanceStatus, NewInstance, Task, WorkDelivery, WorkFilter, WorkFilters,
    WorkPayload, WorkerOptions, WorkerStream,
};
use tokio::time::Instant;

/// Starts an instance of a version.
async fn begin(node: &Node, instance: &str, version: &str) {
    let new = NewInstance {
        instance: instance.into(),
        task: Task {
            version: Some(version.into()),
            ..task("o", "1")
        },
        ..NewInstance::default()
    };
    node.hub.start(new).await.unwrap();
}

/// What a worker is given before anything is given up.
async fn next(worker: &mut WorkerStream) -> WorkDelivery {
    let item = tokio::time::timeout(Duration::from_secs(60), worker.next());
    item.await.expect("it is given something").unwrap()
}

fn instance(item: &WorkDelivery) -> &str {
    match &item.work {
        WorkPayload::Turn(turn) => &turn.instance,
        other => panic!("no turn: {other:?}"),
    }
}

/// A worker that takes instances whose id begins with its version, and gives the others
/// back, as the .NET SDK does.
async fn work(node: &Node, mut worker: WorkerStream, version: &str) {
    while let Some(item) = worker.next().await {
        let id = instance(&item).to_owned();
        if id.starts_with(version) {
            node.hub
                .complete_turn(&item.token, &id, ends())
                .await
                .unwrap();
        } else {
            node.hub.abandon(&item.token).await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn durable_38_during_an_upgrade_every_instance_finds_the_worker_of_its_version() {
    let hall = Hall::new();
    let node = hall.start().await;
    let old = work(&node, node.hub.worker(WorkerOptions::default()), "1.0");
    let new = work(&node, node.hub.worker(WorkerOptions::default()), "2.0");
    let client = async {
        let began = Instant::now();
        for number in 0..20 {
            // In turn they would come to the right worker by chance.
            for (place, version) in ["1.0", "1.0", "2.0"].into_iter().enumerate() {
                let id = format!("{version}-{number}-{place}");
                begin(&node, &id, version).await;
                let end = tokio::time::timeout(Duration::from_secs(60), node.hub.ended(&id, false));
                let end = end.await.expect("a worker of its version is there");
                assert_eq!(end.unwrap().status, InstanceStatus::Completed);
            }
        }
        // Nothing has waited for a pause of the worker that gave it back.
        assert!(began.elapsed() < Duration::from_millis(100));
    };
    tokio::select! {
        () = old => panic!("the old worker has ended"),
        () = new => panic!("the new worker has ended"),
        () = client => {}
    }
}

#[tokio::test(start_paused = true)]
async fn durable_38_a_worker_that_comes_later_gets_what_another_gives_back_at_once() {
    let hall = Hall::new();
    let node = hall.start().await;
    let mut old = node.hub.worker(WorkerOptions::default());
    begin(&node, "2.0", "2.0").await;
    for _ in 0..8 {
        let item = next(&mut old).await;
        node.hub.abandon(&item.token).await.unwrap();
    }
    // By now the old one is asked every few seconds only.
    let began = Instant::now();
    let mut new = node.hub.worker(WorkerOptions::default());
    let item = next(&mut new).await;
    assert_eq!(instance(&item), "2.0");
    assert_eq!(began.elapsed(), Duration::ZERO);
    // When that one goes, the old one is the only one: it is asked again.
    drop(new);
    assert_eq!(instance(&next(&mut old).await), "2.0");
}

#[tokio::test(start_paused = true)]
async fn durable_38_a_busy_worker_does_not_keep_an_item_from_one_that_gave_it_back() {
    let hall = Hall::new();
    let node = hall.start().await;
    let one_at_a_time = WorkerOptions {
        turns: 1,
        ..WorkerOptions::default()
    };
    let mut busy = node.hub.worker(one_at_a_time);
    begin(&node, "first", "1.0").await;
    let first = next(&mut busy).await;
    let mut other = node.hub.worker(WorkerOptions::default());
    begin(&node, "second", "1.0").await;
    let second = next(&mut other).await;
    let began = Instant::now();
    node.hub.abandon(&second.token).await.unwrap();
    let again = next(&mut other).await;
    assert_eq!(instance(&again), "second");
    assert!(
        began.elapsed() >= Duration::from_millis(100),
        "after its pause"
    );
    node.hub.abandon(&again.token).await.unwrap();
    let done = node.hub.complete_turn(&first.token, "first", ends());
    assert!(done.await.unwrap());
    // Now the other one has room, and its turn comes before the pause is over.
    let began = Instant::now();
    assert_eq!(instance(&next(&mut busy).await), "second");
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn durable_38_an_item_that_every_worker_gives_back_goes_out_once_per_pause() {
    let hall = Hall::new();
    let node = hall.start().await;
    let began = Instant::now();
    let times = RefCell::new(Vec::new());
    let decline = async |mut worker: WorkerStream| {
        while let Some(item) = worker.next().await {
            times.borrow_mut().push(began.elapsed());
            node.hub.abandon(&item.token).await.unwrap();
        }
    };
    let workers = [(); 3].map(|()| decline(node.hub.worker(WorkerOptions::default())));
    begin(&node, "2.0", "2.0").await;
    let minute = tokio::time::timeout(Duration::from_secs(60), join_all(workers));
    assert!(minute.await.is_err());
    let times = times.into_inner();
    // Every worker is asked at once, and then one of them after each pause.
    assert!(times[2] < Duration::from_millis(100), "{times:?}");
    let gaps: Vec<_> = times[2..].windows(2).map(|two| two[1] - two[0]).collect();
    assert!(gaps.is_sorted(), "{gaps:?}");
    assert!((7..=11).contains(&gaps.len()), "{gaps:?}");
}

/// Has workers give back what they are given, one after the other.
async fn refuse(node: &Node, workers: [&mut WorkerStream; 2]) {
    for worker in workers {
        let item = next(worker).await;
        assert!(node.hub.abandon(&item.token).await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn durable_38_when_the_worker_that_is_asked_again_goes_another_is_asked() {
    let hall = Hall::new();
    let node = hall.start().await;
    let mut first = node.hub.worker(WorkerOptions::default());
    let mut second = node.hub.worker(WorkerOptions::default());
    begin(&node, "2.0", "2.0").await;
    refuse(&node, [&mut first, &mut second]).await;
    assert_eq!(instance(&next(&mut first).await), "2.0");
    drop(first);
    assert_eq!(instance(&next(&mut second).await), "2.0");
}

#[tokio::test(start_paused = true)]
async fn durable_38_when_a_worker_goes_that_had_no_room_to_be_asked_another_is_asked() {
    let hall = Hall::new();
    let node = hall.start().await;
    let one_at_a_time = || WorkerOptions {
        turns: 1,
        ..WorkerOptions::default()
    };
    let mut first = node.hub.worker(one_at_a_time());
    let mut second = node.hub.worker(one_at_a_time());
    begin(&node, "2.0", "2.0").await;
    refuse(&node, [&mut first, &mut second]).await;
    begin(&node, "one", "1.0").await;
    assert_eq!(instance(&next(&mut first).await), "one");
    begin(&node, "two", "1.0").await;
    let two = next(&mut second).await;
    assert_eq!(instance(&two), "two");
    // The pause ends, and the first one is to be asked.
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(first);
    let done = node.hub.complete_turn(&two.token, "two", ends());
    assert!(done.await.unwrap());
    // What the first one had is there as well, but came later.
    assert_eq!(instance(&next(&mut second).await), "2.0");
}

#[tokio::test(start_paused = true)]
async fn durable_38_when_the_worker_asked_again_for_an_activity_goes_another_is_asked() {
    let hall = Hall::new();
    let node = hall.start().await;
    let mut first = node.hub.worker(WorkerOptions::default());
    begin(&node, "i", "1.0").await;
    let turn = next(&mut first).await;
    let mut second = node.hub.worker(WorkerOptions::default());
    let result = wants(vec![ActionKind::Schedule(task("a", "1"))]);
    let done = node.hub.complete_turn(&turn.token, "i", result);
    assert!(done.await.unwrap());
    refuse(&node, [&mut second, &mut first]).await;
    let activity = next(&mut second).await;
    assert!(matches!(activity.work, WorkPayload::Activity(_)));
    drop(second);
    let activity = tokio::time::timeout(Duration::from_secs(600), first.next());
    let activity = activity.await.expect("it is given something").unwrap();
    assert!(matches!(activity.work, WorkPayload::Activity(_)));
}

#[tokio::test(start_paused = true)]
async fn durable_38_a_worker_that_gave_an_item_back_and_goes_does_not_end_the_pause() {
    let hall = Hall::new();
    let node = hall.start().await;
    let mut first = node.hub.worker(WorkerOptions::default());
    let mut second = node.hub.worker(WorkerOptions::default());
    begin(&node, "2.0", "2.0").await;
    refuse(&node, [&mut first, &mut second]).await;
    let began = Instant::now();
    drop(second);
    assert_eq!(instance(&next(&mut first).await), "2.0");
    assert!(began.elapsed() >= Duration::from_millis(100));
}

#[tokio::test(start_paused = true)]
async fn durable_35_an_activity_without_a_version_has_that_of_its_orchestration() {
    let hall = Hall::new();
    let node = hall.start().await;
    let listed = |version: &str| {
        let filter = |name: &str| WorkFilter {
            name: name.into(),
            versions: vec![version.into()],
        };
        WorkerOptions {
            filters: Some(WorkFilters {
                orchestrations: vec![filter("o")],
                activities: vec![filter("a")],
                ..WorkFilters::default()
            }),
            ..WorkerOptions::default()
        }
    };
    let mut old = node.hub.worker(listed("2.0.0"));
    let mut new = node.hub.worker(listed("3.0.0"));
    begin(&node, "i", "3.0.0").await;
    let turn = next(&mut new).await;
    let result = wants(vec![ActionKind::Schedule(task("a", "1"))]);
    let done = node.hub.complete_turn(&turn.token, "i", result);
    assert!(done.await.unwrap());
    let activity = next(&mut new).await;
    assert!(matches!(activity.work, WorkPayload::Activity(_)));
    let nothing = tokio::time::timeout(Duration::from_secs(60), old.next());
    assert!(
        nothing.await.is_err(),
        "not for a worker of another version"
    );
}

#[tokio::test(start_paused = true)]
async fn durable_35_filters_compare_names_without_case() {
    let hall = Hall::new();
    let node = hall.start().await;
    let filter = |name: &str, version: &str| WorkFilter {
        name: name.into(),
        versions: vec![version.into()],
    };
    let mut worker = node.hub.worker(WorkerOptions {
        filters: Some(WorkFilters {
            orchestrations: vec![filter("O", "1-BETA"), filter("ÄRGER", "1-beta")],
            ..WorkFilters::default()
        }),
        ..WorkerOptions::default()
    });
    begin(&node, "plain", "1-beta").await;
    assert_eq!(instance(&next(&mut worker).await), "plain");
    let new = NewInstance {
        instance: "other".into(),
        task: Task {
            version: Some("1-Beta".into()),
            ..task("Ärger", "1")
        },
        ..NewInstance::default()
    };
    node.hub.start(new).await.unwrap();
    assert_eq!(instance(&next(&mut worker).await), "other");
}

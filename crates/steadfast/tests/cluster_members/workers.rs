//! Workers of one node run the instances of all nodes.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use steadfast::Node;
use steadfast::durable::{
    Context, EntityOperation, FailureDetails, InstanceStatus, NewInstance, Task, TurnResult,
    WorkPayload, WorkerOptions, entity,
};
use steadfast_harness::postgres::PostgresCluster;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::members::{PATIENCE, config, serves};

#[derive(Default, Serialize, Deserialize)]
struct Counter {
    value: i64,
}

#[entity]
impl Counter {
    fn add(&mut self, by: i64) -> i64 {
        self.value += by;
        self.value
    }

    fn get(&self) -> i64 {
        self.value
    }

    /// Waits until the test releases it.
    async fn pass(&mut self) -> i64 {
        let _permit = GATE.acquire().await;
        self.value
    }
}

/// Closed at first.
static GATE: Semaphore = Semaphore::const_new(0);

async fn wait_for_it(cx: Context, (): ()) -> Result<(), FailureDetails> {
    cx.activity::<_, ()>("pass", &()).await?;
    cx.event::<()>("go").await
}

async fn count_to(cx: Context, (key, n): (String, i64)) -> Result<i64, FailureDetails> {
    let counter = Counter::at(&key)?;
    for _ in 0..n {
        counter.signal_add(&cx, 1).await?;
    }
    counter.get(&cx).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_worker_at_one_node_runs_everything() {
    let database = PostgresCluster::start().unwrap();
    let url = database.url();
    // Only the first has code.
    let first = Node::builder().config(config("a", &url, 6));
    let first = first.entity::<Counter>().orchestration("count", count_to);
    let first = first.start().await.unwrap();
    let second = Node::builder()
        .config(config("b", &url, 6))
        .start()
        .await
        .unwrap();
    let third = Node::builder()
        .config(config("c", &url, 6))
        .start()
        .await
        .unwrap();
    for node in [&first, &second, &third] {
        serves(node, 2).await;
    }
    let hub = second.task_hubs().hub("default").unwrap();
    let waiting = third.task_hubs().hub("default").unwrap();
    let mut instances = Vec::new();
    for number in 0..12 {
        let task = Task {
            name: "count".to_owned(),
            input: Some(format!("[\"k{number}\",3]")),
            ..Task::default()
        };
        let mut new = NewInstance::of(task);
        new.instance = format!("i{number}");
        instances.push(hub.start(new).await.unwrap());
    }
    for instance in &instances {
        let ended = tokio::time::timeout(PATIENCE, waiting.ended(instance, true));
        let ended = ended.await.unwrap().unwrap();
        assert_eq!(ended.status, InstanceStatus::Completed, "{ended:?}");
        assert_eq!(ended.output.as_deref(), Some("3"), "{ended:?}");
    }
    // Answers of entities come back to the caller, on any node.
    for number in 0..12 {
        let counter = Counter::at(&format!("k{number}")).unwrap();
        for (hub, expected) in [(&hub, 4), (&waiting, 5)] {
            let added = tokio::time::timeout(PATIENCE, counter.add(hub, 1));
            assert_eq!(added.await.unwrap(), Ok(expected), "k{number}");
        }
    }
    let sheet = third.drain(Duration::from_secs(10)).await;
    assert_eq!((sheet.left, sheet.lost), (0, 0));
    let counter = Counter::at("k0").unwrap();
    assert_eq!(counter.get(&hub).await, Ok(5));
}

/// Waits for instances, calls of entities and activities begin where these are. They end
/// wherever these are by then, and leave nothing behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whoever_waits_is_told_also_if_the_instance_moves() {
    let database = PostgresCluster::start().unwrap();
    let url = database.url();
    let node = async |name: &str| {
        let node = Node::builder().config(config(name, &url, 6));
        let node = node.entity::<Counter>().orchestration("wait", wait_for_it);
        let node = node.activity("pass", |_, (): ()| async {
            let _permit = GATE.acquire().await;
            Ok(())
        });
        node.start().await.unwrap()
    };
    let (first, second) = (node("a").await, node("b").await);
    for node in [&first, &second] {
        serves(node, 3).await;
    }
    let mut waits = JoinSet::new();
    let mut calls = JoinSet::new();
    for number in 0..12 {
        let instance = format!("i{number}");
        let task = Task {
            name: "wait".to_owned(),
            ..Task::default()
        };
        let mut new = NewInstance::of(task);
        new.instance.clone_from(&instance);
        let hub = first.task_hubs().hub("default").unwrap();
        hub.start(new).await.unwrap();
        hub.started(&instance, false).await.unwrap();
        for node in [&first, &second] {
            let (hub, instance) = (node.task_hubs().hub("default").unwrap(), instance.clone());
            waits.spawn(async move { hub.ended(&instance, false).await.unwrap().status });
        }
        let operation = EntityOperation {
            name: "pass".to_owned(),
            target: format!("@counter@k{number}"),
            request: format!("r{number}"),
            ..EntityOperation::default()
        };
        calls.spawn(async move { hub.call(operation).await.unwrap().unwrap() });
    }
    let third = node("c").await;
    for node in [&first, &second, &third] {
        serves(node, 2).await;
    }
    let hub = third.task_hubs().hub("default").unwrap();
    GATE.add_permits(1);
    for number in 0..12 {
        let raised = hub.raise(&format!("i{number}"), "go", None).await;
        assert!(raised.unwrap());
    }
    let ended = tokio::time::timeout(PATIENCE, waits.join_all()).await;
    let ended = ended.expect("all are told");
    assert!(
        ended
            .iter()
            .all(|status| *status == InstanceStatus::Completed)
    );
    let answers = tokio::time::timeout(PATIENCE, calls.join_all()).await;
    let answers = answers.expect("all are answered");
    assert!(answers.iter().all(|answer| answer.as_deref() == Some("0")));
    // A node that believes its workers to be busy would wait for them.
    for node in [first, second] {
        let leaving = node.task_hubs().leave(2 * PATIENCE);
        let left = tokio::time::timeout(PATIENCE, leaving).await;
        left.expect("nothing is out");
    }
}

/// The node of the worker tells the owner of the instance how much it has sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_item_of_another_node_is_cut_at_its_owner() {
    let database = PostgresCluster::start().unwrap();
    let url = database.url();
    let start = async |name: &str| {
        let node = Node::builder().config(config(name, &url, 6));
        node.start().await.unwrap()
    };
    let (first, second) = (start("a").await, start("b").await);
    for node in [&first, &second] {
        serves(node, 3).await;
    }
    let hub = first.task_hubs().hub("default").unwrap();
    // Some of them are at the other node.
    for number in 0..12 {
        let mut new = NewInstance::of(Task {
            name: "some".to_owned(),
            ..Task::default()
        });
        new.instance = format!("i{number}");
        let instance = hub.start(new).await.unwrap();
        for _ in 0..3 {
            hub.raise(&instance, "e", None).await.unwrap();
        }
    }
    let mut worker = hub.worker(WorkerOptions::default());
    let mut sizes: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    while sizes.values().flatten().sum::<usize>() < 12 * 4 {
        let item = tokio::time::timeout(PATIENCE, worker.next()).await;
        let item = item.unwrap().unwrap();
        let WorkPayload::Turn(turn) = item.work else {
            panic!("no turn");
        };
        let instance = turn.instance;
        // The first one says that the turn has begun.
        let count = (turn.new.len() - 1).min(3);
        assert!(hub.cut(&item.token, &instance, count).await.unwrap());
        let result = TurnResult::default();
        let done = hub.complete_turn(&item.token, &instance, result);
        assert!(done.await.unwrap());
        sizes.entry(instance).or_default().push(count);
    }
    assert_eq!(sizes.len(), 12);
    for (instance, sizes) in sizes {
        assert_eq!(sizes, [3, 1], "{instance}");
    }
}

//! Workers of one node run the instances of all nodes.

mod members;

use std::time::Duration;

use members::{PATIENCE, config, serves};
use serde::{Deserialize, Serialize};
use steadfast::Node;
use steadfast::durable::{Context, Failure, NewInstance, Status, Task, entity};
use steadfast_harness::postgres::PostgresCluster;

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
}

async fn count_to(cx: Context, (key, n): (String, i64)) -> Result<i64, Failure> {
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
        assert_eq!(ended.status, Status::Completed, "{ended:?}");
        assert_eq!(ended.output.as_deref(), Some("3"), "{ended:?}");
    }
    // Answers of entities come back to whoever asked, wherever that was.
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

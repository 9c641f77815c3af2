//! Entities and orchestrations in a process of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use steadfast::Node;
use steadfast::durable::{
    Context, EntityContext, FailureDetails, InstanceStatus, NewInstance, Task, entity,
};

#[derive(Default, Serialize, Deserialize)]
struct Counter {
    value: i64,
    /// Not state: put in by the node.
    #[serde(skip)]
    bell: Option<Arc<AtomicU32>>,
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

    /// Operations may wait for the world outside.
    async fn ring(&mut self) -> Result<u32, FailureDetails> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let bell = self
            .bell
            .clone()
            .ok_or_else(|| FailureDetails::new("NoBell", "no bell"))?;
        self.value += 1;
        Ok(bell.fetch_add(1, Ordering::SeqCst) + 1)
    }

    fn close(&mut self, context: &mut EntityContext, note: String) -> Result<(), FailureDetails> {
        if note.is_empty() {
            self.value = -1;
            return Err(FailureDetails::new("NoNote", "say why"));
        }
        let audit = steadfast::durable::EntityId::new("counter", "audit")?;
        context.signal(&audit, "add", &1)?;
        context.delete();
        Ok(())
    }
}

async fn count_to(cx: Context, (key, n): (String, i64)) -> Result<i64, FailureDetails> {
    let counter = Counter::at(&key)?;
    for _ in 0..n {
        counter.signal_add(&cx, 1).await?;
    }
    counter.get(&cx).await
}

#[tokio::test]
async fn a_node_runs_typed_entities_and_orchestrations_across_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let rung = Arc::new(AtomicU32::new(0));
    let builder = || {
        let bell = Arc::clone(&rung);
        Node::builder()
            .data(folder.path().join("data"))
            .partitions(4)
            .functions("default", |functions| {
                functions.entities_with(move |counter: &mut Counter, _: &EntityContext| {
                    counter.bell = Some(Arc::clone(&bell));
                })
            })
            .orchestration("count", count_to)
    };
    let node = builder().start().await.unwrap();
    let hub = node.task_hubs().hub("default").unwrap();
    let counter = Counter::at("a").unwrap();
    assert_eq!(counter.get(&hub).await, Ok(0));
    assert!(
        hub.entity("@counter@a", true).await.unwrap().is_none(),
        "only looked at"
    );
    assert_eq!(counter.add(&hub, 5).await, Ok(5));
    assert_eq!(counter.ring(&hub).await, Ok(1));
    // A failing operation leaves no trace.
    let failure = counter.close(&hub, String::new()).await.unwrap_err();
    assert_eq!(failure.kind, "NoNote");
    assert_eq!(counter.get(&hub).await, Ok(6));
    let task = Task::new("count", &("a", 10)).unwrap();
    let id = hub.start(NewInstance::of(task)).await.unwrap();
    let end = hub.ended(&id, true).await.unwrap();
    assert_eq!(
        (end.status, end.output.as_deref()),
        (InstanceStatus::Completed, Some("16"))
    );
    let sheet = node.drain(Duration::from_secs(10)).await;
    assert_eq!(sheet.lost, 0);
    node.stop(Duration::from_secs(2)).await;
    drop((hub, node));

    // Tasks of the first one that are about to end hold its folder a moment longer.
    let again = async {
        loop {
            match builder().start().await {
                Ok(node) => return node,
                Err(steadfast::Error::Storage(error)) if error.code().0 == "STF-2001" => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    };
    let node = tokio::time::timeout(Duration::from_secs(30), again)
        .await
        .unwrap();
    let hub = node.task_hubs().hub("default").unwrap();
    assert_eq!(counter.get(&hub).await, Ok(16));
    assert_eq!(counter.close(&hub, "done".into()).await, Ok(()));
    assert!(hub.entity("@counter@a", true).await.unwrap().is_none());
    let audit = Counter::at("audit").unwrap();
    while audit.get(&hub).await != Ok(1) {
        tokio::task::yield_now().await;
    }
}

//! Jobs that reach instances of their own node.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use steadfast::Node;
use steadfast::config::{Config, Layers};
use steadfast::durable::{Context, entity};

#[derive(Default, Serialize, Deserialize)]
struct Counter {
    value: i64,
}

#[entity]
impl Counter {
    fn add(&mut self, by: i64) {
        self.value += by;
    }

    fn get(&self) -> i64 {
        self.value
    }
}

const JOBS: &str = "subscriptions/main/resourceGroups/default/providers/Microsoft.Scheduler\
                    /jobCollections/nightly";
const FLAGS: [&str; 8] = [
    "http.port=0",
    "events.amqp_port=0",
    "events.blob_port=0",
    "durable.port=0",
    "realtime.port=0",
    "partitions=4",
    "jobs.allow_seconds=true",
    "jobs.quotas=false",
];

async fn put(node: &Node, path: &str, body: Value) -> (u16, Value) {
    let port = node.http_port().unwrap();
    let url = format!("http://127.0.0.1:{port}/{JOBS}{path}?api-version=2016-03-01");
    // The tests' processes share no provider of cryptography with the node's.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let request = reqwest::Client::new().put(url).json(&body);
    let answer = request.bearer_auth("SAS_KEY_VALUE").send().await.unwrap();
    let status = answer.status().as_u16();
    (status, answer.json().await.unwrap_or_default())
}

fn internal(target: &Value) -> Value {
    json!({"properties": {"action": {"type": "Internal", "internal": target}}})
}

#[tokio::test]
async fn an_occurrence_of_a_job_reaches_entities_and_orchestrations() {
    let layers = FLAGS
        .iter()
        .try_fold(Layers::new(), |all, flag| all.flag(flag));
    let config = Config::new(&layers.unwrap()).unwrap();
    let node = Node::builder()
        .config(config)
        .memory()
        .serve()
        .development()
        .entity::<Counter>()
        .orchestration("report", |cx: Context, n: i64| async move {
            Ok((n, cx.now().seconds))
        })
        .start()
        .await
        .unwrap();
    let sku = json!({"properties": {"sku": {"name": "Standard"}}});
    assert_eq!(put(&node, "", sku).await.0, 201);
    let wrong = [
        json!({"entity": "counter", "operation": "add"}),
        json!({"entity": "@counter@a"}),
        json!({"entity": "@counter@a", "operation": "add", "more": 1}),
        json!({"orchestration": "report"}),
        json!({"orchestration": "report", "instanceId": "@x"}),
        json!({"entity": "@counter@a", "operation": "add", "taskHub": "no hub"}),
        json!({"other": 1}),
    ];
    for target in wrong {
        let (status, answer) = put(&node, "/jobs/wrong", internal(&target)).await;
        assert_eq!(status, 400, "{target}: {answer}");
    }
    let target = json!({"entity": "@Counter@a", "operation": "add", "input": 5});
    let made = put(&node, "/jobs/once", internal(&target)).await;
    assert_eq!(made.0, 201, "{}", made.1);
    let hub = node.task_hubs().hub("default").unwrap();
    let counter = Counter::at("a").unwrap();
    while counter.get(&hub).await == Ok(0) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(counter.get(&hub).await, Ok(5));
    let target = json!({"orchestration": "report", "instanceId": "nightly", "input": 7});
    let mut job = internal(&target);
    job["properties"]["recurrence"] = json!({"frequency": "Day", "count": 3});
    job["properties"]["steadfast"] = json!({"frequency": "Second"});
    let made = put(&node, "/jobs/often", job).await;
    assert_eq!(made.0, 201, "{}", made.1);
    // Each occurrence is an execution of its own under the same id.
    let mut executions = BTreeSet::new();
    while executions.len() < 2 {
        let end = hub.ended("nightly", true).await.unwrap();
        assert!(end.output.unwrap().starts_with("[7,"));
        executions.insert(end.execution);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn the_shortest_retry_interval_is_a_setting() {
    for (flag, expected) in [(None, 400), (Some("jobs.min_retry_interval=1s"), 201)] {
        let layers = FLAGS
            .iter()
            .chain(flag.as_ref())
            .try_fold(Layers::new(), |all, flag| all.flag(flag));
        let config = Config::new(&layers.unwrap()).unwrap();
        let building = Node::builder().config(config).memory().serve();
        let node = building.development().start().await.unwrap();
        let sku = json!({"properties": {"sku": {"name": "Standard"}}});
        assert_eq!(put(&node, "", sku).await.0, 201);
        let policy = json!({"retryType": "Fixed", "retryInterval": "PT1S", "retryCount": 1});
        let action = json!({"type": "Http", "retryPolicy": policy,
            "request": {"uri": "http://127.0.0.1:9/", "method": "GET"}});
        let job = json!({"properties": {"action": action, "state": "Disabled"}});
        let (status, answer) = put(&node, "/jobs/j", job).await;
        assert_eq!(status, expected, "{flag:?}: {answer}");
    }
}

//! Jobs that come while very many others are due.

use std::time::Duration;

use futures_util::future::join_all;
use steadfast_core::limits::NEAR_TIMERS;
use steadfast_jobs::{CollectionDraft, CollectionId, Precondition};

use crate::lab::{Lab, Manner, Node, draft, outside, pass, time};

const NOON: &str = "2025-06-01T12:00:00Z";

/// Makes so many jobs that run once, at noon and 30 seconds, all to one host.
async fn burst(node: &Node, home: &CollectionId, count: usize) {
    let due = time(NOON) + 30_000;
    for some in (0..count).collect::<Vec<_>>().chunks(500) {
        let made = some.iter().map(|number| {
            let id = home.job(&format!("burst-{number:05}")).unwrap();
            node.make(draft(id, Some(due), None))
        });
        join_all(made).await;
    }
}

async fn another_collection(node: &Node) -> CollectionId {
    let id = CollectionId::new("sub", "rg", "another").unwrap();
    let draft = CollectionDraft {
        id: id.clone(),
        document: "{}".into(),
        most_jobs: None,
        is_enabled: None,
    };
    node.jobs
        .put_collection(draft, Precondition::Nothing)
        .await
        .unwrap();
    id
}

#[tokio::test(start_paused = true)]
async fn a_burst_to_one_host_does_not_delay_a_job_that_comes_after_it() {
    let lab = Lab::at(NOON);
    let node = lab.start().await;
    let (home, other) = (node.collection().await, another_collection(&node).await);
    // 640 calls per second: the burst takes more than three.
    *lab.script.usual.lock() = Manner {
        takes: Duration::from_millis(100),
        is_success: true,
    };
    burst(&node, &home, 2000).await;
    pass(30).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let came = lab.now();
    for home in [&home, &other] {
        let canary = home.job("canary").unwrap();
        node.make(draft(canary, None, None)).await;
    }
    pass(5).await;
    let calls = lab.script.calls.lock().clone();
    assert_eq!(calls.len(), 2002);
    assert!(calls.last().unwrap().at - came > 2000, "there was a burst");
    let canaries = calls.iter().filter(|call| call.order.job.name == "canary");
    let waited: Vec<_> = canaries.map(|call| call.at - came).collect();
    assert_eq!(waited.len(), 2);
    assert!(waited.iter().all(|waited| *waited <= 500), "{waited:?} ms");
    assert_eq!(lab.script.most_at_once(), 64);
}

#[tokio::test(start_paused = true)]
async fn a_burst_in_one_collection_does_not_delay_a_job_of_it_that_comes_after_it() {
    const BURST: usize = 2 * NEAR_TIMERS;
    let lab = Lab::at(NOON);
    let node = lab.start().await;
    let home = node.collection().await;
    burst(&node, &home, BURST).await;
    node.kill();
    pass(60).await;
    // All of them are due, and more than memory holds.
    let node = lab.start().await;
    let mut canary = draft(home.job("canary").unwrap(), None, None);
    canary.main = outside("another host");
    node.make(canary).await;
    lab.script.until_called(BURST + 1).await;
    let calls = lab.script.calls.lock().clone();
    let place = calls
        .iter()
        .position(|call| call.order.job.name == "canary");
    let place = place.unwrap();
    assert!(place < BURST / 4, "{place} of {BURST} ran before it");
}

#[tokio::test(start_paused = true)]
async fn a_burst_does_not_delay_a_job_of_its_collection_and_host_that_was_made_before_it() {
    const BURST: usize = 3 * NEAR_TIMERS;
    let lab = Lab::at(NOON);
    let node = lab.start().await;
    let home = node.collection().await;
    // It is due after the burst, and goes where the burst goes.
    let canary = home.job("canary").unwrap();
    let due = time(NOON) + 31_000;
    node.make(draft(canary, Some(due), None)).await;
    burst(&node, &home, BURST).await;
    node.kill();
    pass(60).await;
    // All of them are due, and more than memory holds.
    let _node = lab.start().await;
    lab.script.until_called(BURST + 1).await;
    let calls = lab.script.calls.lock().clone();
    let place = calls
        .iter()
        .position(|call| call.order.job.name == "canary");
    let place = place.unwrap();
    assert!(place < BURST / 4, "{place} of {BURST} ran before it");
}

//! Lists of task hubs and workers.

use std::collections::BTreeSet;
use std::time::Duration;

use steadfast_durable::{
    ErrorKind, NewInstance, TaskHubPage, WorkFilter, WorkFilters, WorkerOptions,
};

use crate::hall::{Hall, Node, operation, task};

async fn names(node: &Node, after: &str, limit: usize) -> (Vec<String>, Option<String>) {
    let page = node.hubs.page(after, limit, |_| true).await.unwrap();
    named(page)
}

fn named(page: TaskHubPage) -> (Vec<String>, Option<String>) {
    let names = page.hubs.into_iter().map(|(name, _)| name);
    (names.collect(), page.next)
}

/// Instances in the task hubs `b` and `b2`, an entity in `a`.
async fn fill(node: &Node) {
    for hub in ["b", "b2"] {
        for number in 0..20 {
            let new = NewInstance {
                instance: format!("i{number}"),
                task: task("o", "1"),
                ..NewInstance::default()
            };
            node.hubs.hub(hub).unwrap().start(new).await.unwrap();
        }
    }
    let signalled = node.hubs.hub("a").unwrap();
    signalled
        .signal(operation("@e@k", "op", "1"))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn task_hubs_with_stored_instances_or_entities_are_listed_by_name() {
    let hall = Hall::new();
    let node = hall.start().await;
    fill(&node).await;
    // One that was only named does not exist.
    node.hubs.hub("idle").unwrap();
    let all = ["a", "b", "b2"].map(str::to_owned);
    assert_eq!(names(&node, "", 3).await, (all.to_vec(), None));
    assert_eq!(
        names(&node, "", 2).await,
        (all[..2].to_vec(), Some("b".to_owned()))
    );
    assert_eq!(names(&node, "b", 2).await, (all[2..].to_vec(), None));
    let visible = node.hubs.page("", 1, |name| name != "a").await.unwrap();
    assert_eq!(named(visible), (all[1..2].to_vec(), Some("b".to_owned())));
    let last = node.hubs.page("", 1, |name| name == "b2").await.unwrap();
    assert_eq!(named(last), (all[2..].to_vec(), None));
    // Another process over the same disk has done nothing yet.
    drop(node);
    let node = hall.start().await;
    assert_eq!(names(&node, "", 3).await, (all.to_vec(), None));
}

#[tokio::test(start_paused = true)]
async fn only_a_task_hub_that_exists_has_details() {
    let mut hall = Hall::new();
    hall.kept.insert("b".to_owned(), Duration::from_secs(60));
    let node = hall.start().await;
    fill(&node).await;
    let stored = node.hubs.details("b", "here").await.unwrap().unwrap();
    assert_eq!(stored.retention, Some(Duration::from_secs(60)));
    assert_eq!(stored.nodes.len(), 1);
    let (_, counts) = &stored.nodes[0];
    let items = counts.queued.total() + counts.in_progress.total();
    assert!(counts.workers == 0 && items == 20, "{counts:?}");
    for absent in ["idle", "", "b\0", "default"] {
        assert_eq!(node.hubs.details(absent, "here").await.unwrap(), None);
        let workers = node.hubs.workers(absent, "here", None, 1).await;
        assert!(workers.unwrap().is_none(), "{absent:?}");
    }
    let declared = BTreeSet::from(["idle".to_owned()]);
    let declared = node.hubs.clone().only(declared);
    assert!(declared.details("idle", "here").await.unwrap().is_some());
    let page = declared.page("b2", 5, |_| true).await.unwrap();
    assert_eq!(named(page).0, ["idle"]);
}

#[tokio::test(start_paused = true)]
async fn workers_are_listed_with_what_they_take_and_have() {
    let hall = Hall::new();
    let node = hall.start().await;
    let filters = WorkFilters {
        orchestrations: vec![WorkFilter {
            name: "o".to_owned(),
            versions: vec!["1.0".to_owned()],
        }],
        ..WorkFilters::default()
    };
    let mut first = node.hub.worker(WorkerOptions {
        name: "first".to_owned(),
        address: Some("10.0.0.7".to_owned()),
        turns: 3,
        ..WorkerOptions::default()
    });
    let second = node.hub.worker(WorkerOptions {
        filters: Some(filters.clone()),
        ..WorkerOptions::default()
    });
    node.begin("p", "i", "1").await;
    first.next().await.unwrap();
    let list = async |cursor: Option<&str>, limit| {
        let page = node.hubs.workers("default", "here", cursor, limit).await;
        page.unwrap().unwrap()
    };
    let page = list(None, 1).await;
    let worker = &page.workers[0];
    assert_eq!(page.workers.len(), 1);
    assert_eq!(worker.options.name, "first");
    assert_eq!(worker.options.address.as_deref(), Some("10.0.0.7"));
    assert_eq!(worker.options.turns, 3);
    assert_eq!(
        worker.options.activities,
        steadfast_core::limits::WORKER_ITEMS
    );
    assert_eq!(worker.options.filters, None);
    assert_eq!(
        worker.since,
        steadfast_core::clock::Clock::now(&*hall.clock)
    );
    assert_eq!(worker.in_progress.orchestrations, 1);
    assert_eq!(worker.in_progress.total(), 1);
    let next = page.next.unwrap();
    assert_eq!(next, format!("here:{}", worker.number));
    let rest = list(Some(&next), 1).await;
    assert_eq!(rest.workers.len(), 1);
    assert_eq!(rest.workers[0].options.filters.as_ref(), Some(&filters));
    assert_eq!(rest.next, None);
    // Cursors of other nodes: those before and after this one.
    assert_eq!(list(Some("a:9"), 5).await.workers.len(), 2);
    assert_eq!(list(Some("z:0"), 5).await.workers.len(), 0);
    drop(second);
    assert_eq!(list(None, 5).await.workers.len(), 1);
    let bad = node.hubs.workers("default", "here", Some("here"), 5).await;
    assert_eq!(bad.unwrap_err().kind(), ErrorKind::Invalid);
}

//! Workers of other nodes, and ways that break.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt as _;
use steadfast_durable::native::{FunctionRunner, Functions, RunResult};
use steadfast_durable::{
    InstanceStatus, TaskHubCounts, TaskHubs, TurnResult, WorkCounts, WorkDelivery, WorkPayload,
    WorkerOptions, WorkerPeers, WorkerStream,
};
use steadfast_partition::{Error, ErrorKind, Result};
use tokio::sync::watch;

use crate::delivery::{ends, with_activity};
use crate::hall::{Hall, Node, operation};

/// Long before a lease ends, and before a silent worker is removed.
const SOON: Duration = Duration::from_secs(2);

/// How the way between two nodes is.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Open,
    /// What is asked arrives, but not its answer.
    NoAnswers,
    /// The other node has died.
    Cut,
}

/// The way of a node to an owner.
struct Line {
    owner: TaskHubs,
    /// The set of nodes never changes.
    changes: watch::Sender<u64>,
    way: watch::Sender<Way>,
    /// How often the owner was asked, and answered.
    asked: watch::Sender<(u64, u64)>,
}

fn broken() -> Error {
    Error::new(ErrorKind::Malformed {
        what: "a broken way",
    })
}

#[async_trait]
impl WorkerPeers for Line {
    fn names(&self) -> Vec<String> {
        vec!["owner".to_owned()]
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    async fn request(&self, _: &str, word: Bytes) -> Result<Bytes> {
        let mut way = self.way.subscribe();
        if *way.borrow() == Way::Cut {
            return Err(broken());
        }
        self.asked.send_modify(|(asked, _)| *asked += 1);
        let answer = tokio::select! {
            answer = self.owner.handle_peer_message(&word) => answer,
            _ = way.wait_for(|way| *way == Way::Cut) => return Err(broken()),
        };
        self.asked.send_modify(|(_, answered)| *answered += 1);
        match *way.borrow() {
            Way::Open => answer,
            Way::NoAnswers | Way::Cut => Err(broken()),
        }
    }
}

/// A node that owns everything, and another one with a worker.
struct Pair {
    owner: Node,
    other: Node,
    worker: WorkerStream,
    line: Arc<Line>,
}

impl Pair {
    async fn new() -> Self {
        let (owner, other) = (Hall::new().start().await, Hall::new().start().await);
        let line = Arc::new(Line {
            owner: owner.hubs.clone(),
            changes: watch::channel(0).0,
            way: watch::channel(Way::Open).0,
            asked: watch::channel((0, 0)).0,
        });
        other.hubs.connect_peers(Arc::clone(&line) as _);
        let worker = other.hub.worker(WorkerOptions::default());
        let pair = Self {
            owner,
            other,
            worker,
            line,
        };
        pair.is_waiting().await;
        pair
    }

    /// The owner has a question that it has not answered.
    async fn is_waiting(&self) {
        let mut asked = self.line.asked.subscribe();
        let waiting = asked.wait_for(|(asked, answered)| asked > answered);
        waiting.await.unwrap();
    }

    /// Ends an instance with what a worker was given.
    async fn end(&self, item: &WorkDelivery, instance: &str) {
        let result = ends();
        let done = self.owner.hub.complete_turn(&item.token, instance, result);
        assert!(done.await.unwrap());
        self.owner.hub.ended(instance, true).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn workers_and_work_items_of_all_nodes_are_listed() {
    let mut pair = Pair::new().await;
    pair.owner.begin("o", "first", "1").await;
    let item = soon(&mut pair.worker).await;
    let hubs = &pair.other.hubs;
    let one = WorkCounts {
        orchestrations: 1,
        ..WorkCounts::default()
    };
    let counts = TaskHubCounts {
        workers: 1,
        in_progress: one,
        ..TaskHubCounts::default()
    };
    let page = hubs.page("", 10, |_| true).await.unwrap();
    assert_eq!(page.hubs, [("default".to_owned(), counts)]);
    assert!(page.next.is_none() && page.missing.is_empty());
    // The item is of the owner, the worker of this node.
    let found = hubs.details("default", "here").await.unwrap().unwrap();
    let without = |workers, in_progress| TaskHubCounts {
        workers,
        in_progress,
        ..TaskHubCounts::default()
    };
    let expected = [
        ("here".to_owned(), without(1, WorkCounts::default())),
        ("owner".to_owned(), without(0, one)),
    ];
    assert_eq!(found.nodes, expected);
    let workers = hubs.workers("default", "here", None, 10).await;
    let workers = workers.unwrap().unwrap().workers;
    assert_eq!(workers.len(), 1, "{workers:?}");
    assert_eq!(workers[0].node, "here");
    assert_eq!(workers[0].in_progress, one, "an item of another node");
    // The owner lists the same task hub, and no worker of its own.
    let seen = pair.owner.hubs.workers("default", "owner", None, 10).await;
    assert!(seen.unwrap().unwrap().workers.is_empty());
    pair.end(&item, "first").await;
    let workers = hubs.workers("default", "here", None, 10).await;
    let workers = workers.unwrap().unwrap().workers;
    assert_eq!(workers[0].in_progress, WorkCounts::default());
    pair.line.way.send_replace(Way::Cut);
    let page = hubs.page("", 10, |_| true).await.unwrap();
    assert_eq!(page.missing, ["owner"]);
    assert_eq!(page.hubs[0].1.workers, 1, "this node has it");
}

/// What a worker is given before anything is waited for.
async fn soon(worker: &mut WorkerStream) -> WorkDelivery {
    let item = tokio::time::timeout(SOON, worker.next()).await;
    item.expect("it is given out at once").unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_node_that_has_died_gets_no_work() {
    let mut pair = Pair::new().await;
    pair.owner.begin("o", "first", "1").await;
    let item = soon(&mut pair.worker).await;
    pair.is_waiting().await;
    pair.line.way.send_replace(Way::Cut);
    let mut worker = pair.owner.hub.worker(WorkerOptions::default());
    // What it had goes to others, and so does everything that comes.
    let again = soon(&mut worker).await;
    assert_ne!(again.token, item.token);
    pair.end(&again, "first").await;
    for instance in ["a", "b", "c", "d"] {
        pair.owner.begin("o", instance, "1").await;
        let item = soon(&mut worker).await;
        pair.end(&item, instance).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost_takes_no_work_with_it() {
    let mut pair = Pair::new().await;
    pair.line.way.send_replace(Way::NoAnswers);
    pair.owner.begin("o", "first", "1").await;
    let mut asked = pair.line.asked.subscribe();
    let lost = asked.wait_for(|(_, answered)| *answered > 0);
    lost.await.unwrap();
    pair.line.way.send_replace(Way::Open);
    let item = soon(&mut pair.worker).await;
    pair.end(&item, "first").await;
}

/// The partition of an instance takes nothing more for a moment.
fn crowd(node: &Node, instance: &str) {
    // The owner handles no commands while this runs.
    for _ in 0..=steadfast_core::limits::MAILBOX {
        let _ = node.hub.raise(instance, "e", None).now_or_never();
    }
}

/// A worker that goes away while its result waits in front of a full partition.
#[tokio::test(start_paused = true)]
async fn a_result_that_is_broken_off_is_asked_for_again() {
    let node = Hall::new().start().await;
    let mut worker = node.hub.worker(WorkerOptions::default());
    node.begin("o", "i", "1").await;
    let item = soon(&mut worker).await;
    crowd(&node, "i");
    let broken_off = node.hub.complete_turn(&item.token, "i", ends());
    assert!(broken_off.now_or_never().is_none());
    let again = soon(&mut worker).await;
    assert_ne!(again.token, item.token);
    let result = ends();
    let done = node.hub.complete_turn(&again.token, "i", result).await;
    assert!(done.unwrap());
    node.hub.ended("i", true).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_result_of_an_activity_that_is_broken_off_is_asked_for_again() {
    let node = Hall::new().start().await;
    let mut worker = node.hub.worker(WorkerOptions::default());
    let item = with_activity(&node, &mut worker, "i").await;
    crowd(&node, "i");
    let done = || node.hub.complete_activity(&item.token, "i", 1, Ok(None));
    assert!(done().now_or_never().is_none());
    let again = loop {
        let next = soon(&mut worker).await;
        match next.work {
            WorkPayload::Activity(_) => break next,
            // What the crowd has raised.
            _ => drop(
                node.hub
                    .complete_turn(&next.token, "i", TurnResult::default())
                    .await,
            ),
        }
    };
    assert_ne!(again.token, item.token);
    // The first delivery counts as well.
    assert!(done().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_goes_on_when_a_partition_is_taken_again() {
    let node = Hall::new().start().await;
    let mut worker = node.hub.worker(WorkerOptions::default());
    node.begin("o", "i", "1").await;
    soon(&mut worker).await;
    let hub = node.hub.clone();
    let waiting = tokio::spawn(async move { hub.ended("i", false).await });
    let hub = node.hub.clone();
    let call = operation("@missing@k", "op", "1");
    let calling = tokio::spawn(async move { hub.call(call).await });
    soon(&mut worker).await;
    node.take_again().await;
    for _ in 0..2 {
        let item = soon(&mut worker).await;
        let done = match FunctionRunner::new(Functions::new()).run(item.work).await {
            RunResult::Turn(result) => node.hub.complete_turn(&item.token, "i", result).await,
            RunResult::Batch(result) => {
                let done = node.hub.complete_batch(&item.token, "@missing@k", result);
                done.await
            }
            _ => panic!("a turn or a batch was expected"),
        };
        assert!(done.unwrap());
    }
    assert_eq!(
        waiting.await.unwrap().unwrap().status,
        InstanceStatus::Failed
    );
    let failure = calling.await.unwrap().unwrap().unwrap_err();
    assert_eq!(failure.kind, "UnknownEntity");
}

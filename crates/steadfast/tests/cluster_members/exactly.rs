//! Processors of nodes that are killed, with exact totals.
//!
//! Two of three nodes are processes that are killed during publication. Each
//! event is handled once, by the node that owns its partition at that time.

use std::time::Duration;

use steadfast::Node;
use steadfast_collections::Dictionary;
use steadfast_events::{
    Context, EventDataBatch, EventHubDefinition, Handler, HandlerResult, ReceivedEvent,
};
use steadfast_harness::postgres::PostgresCluster;
use steadfast_harness::{Process, own_test};
use tokio::task::JoinSet;

use crate::members::{PATIENCE, config, serves};

const URL: &str = "STEADFAST_TEST_URL";
const NAME: &str = "STEADFAST_TEST_NAME";
const SLOTS: u32 = 12;
const PARTITIONS: usize = 6;

/// Counts events, and adds up their numbers.
struct Totals {
    /// Who started this process waits for it to say what it has handled.
    is_child: bool,
}

impl Handler for Totals {
    async fn handle(&self, events: &[ReceivedEvent], context: &mut Context<'_>) -> HandlerResult {
        let partition = context.partition();
        let totals: Dictionary<String, u64> = context.state()?.get_or_add("totals").await?;
        let tx = context.transaction()?;
        for event in events {
            for (name, more) in [("count", 1), ("sum", event.sequence as u64)] {
                let name = name.to_owned();
                let total = totals.get(tx, &name).await?.map_or(0, |total| *total);
                totals.set(tx, name, total + more).await?;
            }
        }
        let last = events.last().map_or(0, |event| event.sequence);
        if self.is_child {
            println!("handled {partition} {last}");
        }
        Ok(())
    }
}

async fn start(name: &str, url: &str, is_child: bool) -> Node {
    let node = Node::builder()
        .config(config(name, url, PARTITIONS))
        .event_hub(EventHubDefinition::new("houses", SLOTS))
        .processor("houses", "$Default", Totals { is_child });
    node.start().await.unwrap()
}

/// A node in a process of its own that has handled something.
fn child(name: &str, url: &str) -> Process {
    let mut command = own_test(module_path!(), "totals_are_exact_while_nodes_are_killed");
    command.env(URL, url).env(NAME, name);
    let mut child = Process::spawn(command).unwrap();
    child.wait_for(|line| line == "ready", PATIENCE).unwrap();
    let has_handled = |line: &str| line.starts_with("handled ");
    child.wait_for(has_handled, PATIENCE).unwrap();
    child
}

/// Publishes to all partitions endlessly. A failed batch may have been published, or not.
async fn publish(node: &Node) {
    let mut publishing = JoinSet::new();
    for slot in 0..SLOTS {
        let hubs = node.event_hubs().clone();
        publishing.spawn(async move {
            loop {
                if let Ok(sender) = hubs.sender("houses", Some(slot)).await {
                    let _ = sender.send(EventDataBatch::of(b"one").unwrap()).await;
                }
                // As fast as a busy machine handles them.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
    }
    publishing.join_next().await;
}

#[test]
fn totals_are_exact_while_nodes_are_killed() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    if let (Ok(url), Ok(name)) = (std::env::var(URL), std::env::var(NAME)) {
        return runtime.block_on(async {
            let _node = start(&name, &url, true).await;
            println!("ready");
            std::future::pending().await
        });
    }
    let database = PostgresCluster::start().unwrap();
    let url = database.url();
    let node = runtime.block_on(start("p", &url, false));
    let handled = runtime.block_on(async {
        let kills = tokio::task::spawn_blocking(move || {
            let mut one = child("a", &url);
            let mut other = child("b", &url);
            one.kill().unwrap();
            let mut again = child("a", &url);
            other.kill().unwrap();
            again.kill().unwrap();
        });
        tokio::select! {
            () = publish(&node) => unreachable!("it publishes endlessly"),
            done = kills => done.unwrap(),
        }
        tokio::time::timeout(PATIENCE, caught_up(&node))
            .await
            .unwrap()
    });
    assert!(handled > u64::from(SLOTS), "{handled} events");
    println!("3 kills, {handled} events handled, each once");
}

/// Waits until this node has handled everything; compares totals and publications.
async fn caught_up(node: &Node) -> u64 {
    serves(node, PARTITIONS).await;
    let hubs = node.event_hubs();
    let hub = hubs.get("houses").await.unwrap();
    let mut handled = 0;
    for slot in 0..SLOTS {
        let last = hubs.partition("houses", slot).await.unwrap().last_sequence;
        loop {
            let checkpoint = hubs.checkpoint("houses", "$Default", slot).await.unwrap();
            let done = checkpoint.map_or(-1, |found| found.sequence);
            if done == last {
                break;
            }
            println!("partition {slot}: {done} of {last}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let space = node.runtime().space();
        let place = space.partition_of(steadfast_events::HUB_PARTITION, "houses", slot);
        let replica = node.replicas().of(place).await.unwrap();
        let state = replica.scope(&format!("events/{}/$default/{slot}", hub.id));
        let totals: Dictionary<String, u64> = state.get_or_add("totals").await.unwrap();
        let mut tx = replica.begin();
        let mut found = Vec::new();
        for name in ["count", "sum"] {
            let total = totals.get(&mut tx, &name.to_owned()).await.unwrap();
            found.push(total.map_or(0, |total| *total));
        }
        let count = (last + 1) as u64;
        let expected = [count, count * count.saturating_sub(1) / 2];
        assert_eq!(found, expected, "partition {slot}");
        handled += count;
    }
    handled
}

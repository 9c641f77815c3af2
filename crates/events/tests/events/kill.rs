//! Real processes, really killed.
//!
//! A child publishes or processes and says so after each acknowledgement. The parent
//! kills it and looks: everything that was acknowledged is there, and nothing twice.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use steadfast_collections::Dictionary;
use steadfast_events::{
    Context, EventHubDefinition, Guarantee, Handler, HandlerResult, ProcessorOptions,
    ProducerOptions, ProducerSequence, ReceivedEvent,
};
use steadfast_harness::{Process, own_test};
use steadfast_ownership::strategy::GroupTiming;

use crate::setup::{Node, one, open};

const FOLDER: &str = "STEADFAST_EVENTS_FOLDER";
const STATE: &str = "STEADFAST_EVENTS_STATE";
const PATIENCE: Duration = Duration::from_secs(60);
const PARTITIONS: u32 = 4;

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_time().build().unwrap();
    runtime.block_on(work)
}

fn rounds(otherwise: u64) -> u64 {
    let rounds = std::env::var("STEADFAST_ROUNDS").ok();
    rounds
        .and_then(|text| text.parse().ok())
        .unwrap_or(otherwise)
}

/// Starts this test as a child, kills it after some lines, and answers all lines.
fn run_and_kill(test: &str, folder: &Path, state: &str, rng: &mut Rng) -> Vec<String> {
    let mut command = own_test(module_path!(), test);
    command.env(FOLDER, folder).env(STATE, state);
    let mut child = Process::spawn(command).unwrap();
    child.wait_for(|line| line == "ready", PATIENCE).unwrap();
    let mut lines = Vec::new();
    for _ in 0..rng.usize(1..150) {
        lines.push(child.next_line(PATIENCE).unwrap());
    }
    std::thread::sleep(Duration::from_micros(rng.u64(0..5_000)));
    child.kill().unwrap();
    // What it had said before it died counts, too.
    while let Ok(line) = child.next_line(Duration::from_secs(1)) {
        lines.push(line);
    }
    lines
}

async fn with_hub(path: &Path) -> Node {
    let node = open(path).await;
    node.hubs
        .ensure(EventHubDefinition::new("a", PARTITIONS))
        .await
        .unwrap();
    node
}

/// Numbers in a line such as `acked 2 17`.
fn numbers(line: &str, word: &str) -> Option<Vec<i64>> {
    let rest = line.strip_prefix(word)?;
    rest.split_whitespace()
        .map(|text| text.parse().ok())
        .collect()
}

#[test]
fn events_19_accepted_events_survive_kills() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return block_on(publish_for_ever(Path::new(&folder)));
    }
    let folder = tempfile::tempdir().unwrap();
    let mut rng = Rng::new();
    let mut acked: BTreeMap<(u32, i64), String> = BTreeMap::new();
    for round in 0..rounds(10) {
        let test = "events_19_accepted_events_survive_kills";
        for line in run_and_kill(test, folder.path(), &round.to_string(), &mut rng) {
            if let Some(found) = numbers(&line, "acked ") {
                let body = format!("{}/{}", found[2], found[3]);
                acked.insert((found[0] as u32, found[1]), body);
            }
        }
        block_on(async {
            let node = with_hub(folder.path()).await;
            for partition in 0..PARTITIONS {
                let events = node.all("a", partition).await;
                let is_dense = events
                    .iter()
                    .enumerate()
                    .all(|(i, e)| e.sequence == i as i64);
                assert!(is_dense, "a gap in partition {partition}");
                let mine = acked.range((partition, 0)..(partition + 1, 0));
                for ((_, sequence), body) in mine {
                    assert_eq!(events[*sequence as usize].body, body.as_bytes());
                }
            }
            node.stop().await;
        });
    }
    assert!(acked.len() > 50, "the child did not get to publish");
    println!("{} events were accepted, none was lost", acked.len());
}

/// Publishes to all partitions, several at a time.
async fn publish_for_ever(path: &Path) {
    let node = with_hub(path).await;
    let round = std::env::var(STATE).unwrap();
    println!("ready");
    let tasks = (0..8u32).map(|task| {
        let (node, round) = (&node, &round);
        async move {
            let sender = node
                .hubs
                .sender("a", Some(task % PARTITIONS))
                .await
                .unwrap();
            for number in 0.. {
                let number = number * 8 + task;
                let sent = sender
                    .send(one(&format!("{round}/{number}")))
                    .await
                    .unwrap();
                println!(
                    "acked {} {} {round} {number}",
                    sent.partition, sent.sequence
                );
            }
        }
    });
    futures_util::future::join_all(tasks).await;
}

#[test]
fn an_idempotent_producer_that_is_killed_doubles_nothing() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return block_on(produce_for_ever(Path::new(&folder)));
    }
    let folder = tempfile::tempdir().unwrap();
    let mut rng = Rng::new();
    // What the producer knows: its id and the last number that was acknowledged.
    let (mut id, mut last) = (0, -1);
    let mut repeated = 0;
    for _ in 0..rounds(10) {
        let test = "an_idempotent_producer_that_is_killed_doubles_nothing";
        for line in run_and_kill(test, folder.path(), &format!("{id} {last}"), &mut rng) {
            if let Some(found) = numbers(&line, "opened ") {
                id = found[0];
            }
            if let Some(found) = numbers(&line, "acked ") {
                last = last.max(found[0]);
                repeated += found[1];
            }
        }
        block_on(async {
            let node = with_hub(folder.path()).await;
            let events = node.all("a", 1).await;
            assert!(
                events.len() as i64 > last,
                "{} events, {last} acknowledged",
                events.len()
            );
            for (index, event) in events.iter().enumerate() {
                assert_eq!(event.body, index.to_string().as_bytes());
            }
            node.stop().await;
        });
    }
    assert!(last > 50, "the child did not get to publish");
    println!("{last} events, {repeated} were sent again and recognised");
}

/// Publishes numbers; begins with some that were published already.
async fn produce_for_ever(path: &Path) {
    let node = with_hub(path).await;
    let known = numbers(&std::env::var(STATE).unwrap(), "").unwrap();
    let sender = node.hubs.sender("a", Some(1)).await.unwrap();
    let wish = ProducerOptions {
        id: (known[0] != 0).then_some(known[0]),
        ..ProducerOptions::default()
    };
    let producer = sender.producer(wish).await.unwrap();
    println!("ready");
    println!("opened {}", producer.id);
    // As a client that has lost its answers would.
    for first in (known[1] - 5).max(0) as i32.. {
        let stamp = ProducerSequence {
            id: producer.id,
            epoch: producer.epoch,
            first,
        };
        let submitted = sender
            .submit_as(Some(stamp), one(&first.to_string()))
            .await
            .unwrap();
        let published = submitted.published().await.unwrap();
        println!("acked {first} {}", u8::from(published.is_repeated));
    }
}

/// Counts events and adds up their numbers.
struct Totals;

impl Handler for Totals {
    async fn handle(&self, events: &[ReceivedEvent], context: &mut Context<'_>) -> HandlerResult {
        let partition = context.partition();
        let totals: Dictionary<String, u64> = context.state()?.get_or_add("totals").await?;
        let tx = context.transaction()?;
        for event in events {
            let number: u64 = std::str::from_utf8(&event.body)?.parse()?;
            for (name, more) in [("count", 1), ("sum", number)] {
                let name = name.to_owned();
                let total = totals.get(tx, &name).await?.map_or(0, |total| *total);
                totals.set(tx, name, total + more).await?;
            }
        }
        let last = events.last().map_or(0, |event| event.sequence);
        println!("handled {partition} {last}");
        Ok(())
    }
}

#[test]
fn events_41_totals_are_exact_after_twenty_kills() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return block_on(process_for_ever(Path::new(&folder)));
    }
    let folder = tempfile::tempdir().unwrap();
    let mut rng = Rng::new();
    let kills = rounds(20);
    let mut handled = 0;
    for _ in 0..kills {
        let test = "events_41_totals_are_exact_after_twenty_kills";
        run_and_kill(test, folder.path(), "", &mut rng);
        handled = block_on(check_totals(folder.path()));
    }
    assert!(handled > kills, "the child did not get to process");
    println!("{kills} kills, {handled} events handled, each once");
}

/// Compares the totals with the checkpoints; answers how many events were handled.
async fn check_totals(path: &Path) -> u64 {
    let node = with_hub(path).await;
    let hub = node.hubs.get("a").await.unwrap();
    let mut handled = 0;
    for partition in 0..PARTITIONS {
        let checkpoint = node
            .hubs
            .checkpoint("a", "$Default", partition)
            .await
            .unwrap();
        let count = checkpoint.map_or(0, |found| found.sequence + 1) as u64;
        let place =
            node.runtime
                .space()
                .partition_of(steadfast_events::HUB_PARTITION, "a", partition);
        let replica = node.replicas.of(place).await.unwrap();
        let state = replica.scope(&format!("events/{}/$default/{partition}", hub.id));
        let totals: Dictionary<String, u64> = state.get_or_add("totals").await.unwrap();
        let mut tx = replica.begin();
        let mut found = Vec::new();
        for name in ["count", "sum"] {
            let total = totals.get(&mut tx, &name.to_owned()).await.unwrap();
            found.push(total.map_or(0, |total| *total));
        }
        // Event n carries the number n.
        assert_eq!(
            found,
            [count, count * count.saturating_sub(1) / 2],
            "partition {partition}"
        );
        handled += count;
    }
    node.stop().await;
    handled
}

/// Publishes and processes at the same time, with two processors.
async fn process_for_ever(path: &Path) {
    let node = with_hub(path).await;
    let mut processors = Vec::new();
    for owner in ["one", "two"] {
        let options = ProcessorOptions {
            owner: owner.into(),
            guarantee: Guarantee::ExactlyOnce(Arc::clone(&node.replicas)),
            timing: GroupTiming::new(Duration::from_millis(100), Duration::from_millis(500)),
            batch: 5,
            ..ProcessorOptions::default()
        };
        let started = node
            .hubs
            .process("a", "$Default", options, Arc::new(Totals));
        processors.push(started.await.unwrap());
    }
    println!("ready");
    let publish = (0..PARTITIONS).map(|partition| {
        let node = &node;
        async move {
            let sender = node.hubs.sender("a", Some(partition)).await.unwrap();
            let last = node
                .hubs
                .partition("a", partition)
                .await
                .unwrap()
                .last_sequence;
            for number in last + 1.. {
                let sent = sender.send(one(&number.to_string())).await.unwrap();
                assert_eq!(sent.sequence, number);
            }
        }
    });
    futures_util::future::join_all(publish).await;
}

//! Readers at one node follow partitions that move.
//!
//! Their owners join, leave and are killed while events are published at another node.
//! Each event that was acknowledged comes once, and in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use steadfast::Node;
use steadfast_events::{
    EventDataBatch, EventHubDefinition, EventHubs, EventPosition, PartitionReader,
};
use steadfast_harness::postgres::PostgresCluster;
use steadfast_harness::{Process, own_test};
use tokio::task::JoinSet;

use crate::members::{PATIENCE, config, serves};

const URL: &str = "STEADFAST_TEST_URL";
const HUB: &str = "houses";
const SLOTS: u32 = 6;

/// Events that each partition gets between two changes.
const SOME: u64 = 20;

async fn start(name: &str, url: &str) -> Node {
    let node = Node::builder().config(config(name, url, SLOTS as usize));
    let node = node.event_hub(EventHubDefinition::new(HUB, SLOTS));
    node.start().await.unwrap()
}

/// Publishes numbers to a partition; answers those that were acknowledged.
async fn publish(
    hubs: EventHubs,
    slot: u32,
    done: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
) -> Vec<u64> {
    let mut acknowledged = Vec::new();
    let sender = hubs.sender(HUB, Some(slot)).await.unwrap();
    for number in 0.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let batch = EventDataBatch::of(&u64::to_be_bytes(number)).unwrap();
        // Whether one happened whose owner was killed is not known.
        if sender.send(batch).await.is_ok() {
            acknowledged.push(number);
            done.fetch_add(1, Ordering::SeqCst);
        }
    }
    acknowledged
}

/// Reads a partition from its beginning until this many of its events are counted;
/// resumes behind the last one if it is disconnected.
async fn follow(
    hubs: EventHubs,
    slot: u32,
    stop: Arc<AtomicBool>,
    last: Arc<AtomicU64>,
) -> Vec<u64> {
    let mut found: Vec<u64> = Vec::new();
    let mut reader: Option<PartitionReader> = None;
    let is_over = |found: &Vec<u64>| {
        let last = last.load(Ordering::SeqCst);
        stop.load(Ordering::SeqCst) && found.last().is_some_and(|found| *found >= last)
    };
    while !is_over(&found) {
        let Some(open) = &mut reader else {
            let start = match found.len() as i64 {
                0 => EventPosition::Earliest,
                count => EventPosition::Sequence {
                    sequence: count - 1,
                    inclusive: false,
                },
            };
            match hubs.observer(HUB, slot, start).await {
                Ok(open) => reader = Some(open),
                // It changes hands.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
            continue;
        };
        let read = tokio::time::timeout(Duration::from_millis(200), open.next()).await;
        let Ok(read) = read else {
            continue;
        };
        let Ok(mut publication) = read else {
            reader = None;
            continue;
        };
        while let Some(event) = publication.next_event().unwrap() {
            assert_eq!(
                event.sequence,
                found.len() as i64,
                "one is missing, or came twice"
            );
            found.push(u64::from_be_bytes(event.body[..].try_into().unwrap()));
        }
    }
    found
}

/// The node that is killed.
#[tokio::main]
async fn child(url: &str) {
    let node = start("c", url).await;
    println!("ready");
    std::future::pending::<()>().await;
    drop(node);
}

#[test]
fn readers_miss_nothing_while_partitions_move() {
    if let Ok(url) = std::env::var(URL) {
        return child(&url);
    }
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(4).enable_all().build().unwrap();
    let database = PostgresCluster::start().unwrap();
    let url = database.url();
    let (a, b) = runtime.block_on(async { (start("a", &url).await, start("b", &url).await) });
    let mut command = own_test(module_path!(), "readers_miss_nothing_while_partitions_move");
    command.env(URL, &url);
    let mut killed = Process::spawn(command).unwrap();
    killed.wait_for(|line| line == "ready", PATIENCE).unwrap();
    runtime.block_on(async {
        serves(&a, 2).await;
        let (stop, over) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicBool::new(false)),
        );
        let mut publishing = JoinSet::new();
        let mut counts = Vec::new();
        let mut following = Vec::new();
        for slot in 0..SLOTS {
            let (done, last) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
            let writing = publish(
                b.event_hubs().clone(),
                slot,
                Arc::clone(&done),
                Arc::clone(&stop),
            );
            publishing.spawn(async move { (slot, writing.await) });
            let reading = follow(
                a.event_hubs().clone(),
                slot,
                Arc::clone(&over),
                Arc::clone(&last),
            );
            following.push((tokio::spawn(reading), last));
            counts.push(done);
        }
        // Everybody has published some more since.
        let goes_on = async || {
            let before: Vec<_> = counts
                .iter()
                .map(|one| one.load(Ordering::SeqCst))
                .collect();
            let more = async {
                while counts
                    .iter()
                    .zip(&before)
                    .any(|(one, before)| one.load(Ordering::SeqCst) < before + SOME)
                {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            tokio::time::timeout(PATIENCE, more).await.unwrap();
        };
        goes_on().await;
        killed.kill().unwrap();
        goes_on().await;
        serves(&a, 3).await;
        let d = start("d", &url).await;
        serves(&d, 2).await;
        goes_on().await;
        let sheet = d.drain(Duration::from_secs(10)).await;
        assert_eq!((sheet.moved, sheet.left), (2, 0));
        goes_on().await;
        stop.store(true, Ordering::SeqCst);
        let mut acknowledged = vec![Vec::new(); SLOTS as usize];
        while let Some(ended) = publishing.join_next().await {
            let (slot, numbers) = ended.unwrap();
            acknowledged[slot as usize] = numbers;
        }
        for ((_, last), numbers) in following.iter().zip(&acknowledged) {
            last.store(*numbers.last().unwrap(), Ordering::SeqCst);
        }
        over.store(true, Ordering::SeqCst);
        for ((reading, _), numbers) in following.into_iter().zip(&acknowledged) {
            let found = tokio::time::timeout(PATIENCE, reading)
                .await
                .unwrap()
                .unwrap();
            assert!(found.is_sorted_by(|one, next| one < next), "{found:?}");
            let missing: Vec<_> = numbers.iter().filter(|one| !found.contains(one)).collect();
            assert!(missing.is_empty(), "{missing:?} of {}", numbers.len());
            println!("{} events, {} acknowledged", found.len(), numbers.len());
        }
    });
}

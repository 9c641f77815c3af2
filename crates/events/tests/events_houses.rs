//! A hundred thousand houses, sixteen partitions.
//!
//! Sensors report, processors come and are killed meanwhile, each house has its
//! aggregate in a collection, and the aggregates are kept as blobs.
#![expect(clippy::unwrap_used, reason = "tests")]

mod setup;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use setup::{Node, start};
use steadfast_collections::{Dictionary, Query};
use steadfast_events::{
    Batch, Blobs, Conditions, Context, Definition, Guarantee, Handled, Handler, Processor,
    ProcessorOptions, Put, Received, partition_of,
};
use steadfast_ownership::strategy::{Strategy, Timing};

const HOUSES: u32 = 100_000;
const PARTITIONS: u32 = 16;
const BOX: &str = "devstoreaccount1/houses";

/// Counts the reports of each house and adds up their warmth.
struct Houses;

impl Handler for Houses {
    async fn handle(&self, events: &[Received], context: &mut Context<'_>) -> Handled {
        let houses: Dictionary<u32, (u32, u32)> = context.state()?.get_or_add("houses").await?;
        let tx = context.transaction()?;
        for event in events {
            let text = std::str::from_utf8(&event.body)?;
            let (house, warmth) = text.split_once(' ').ok_or("no report")?;
            let (house, warmth): (u32, u32) = (house.parse()?, warmth.parse()?);
            let before = houses.get(tx, &house).await?.map_or((0, 0), |found| *found);
            houses
                .set(tx, house, (before.0 + 1, before.1 + warmth))
                .await?;
        }
        Ok(())
    }
}

async fn processor(node: &Node) -> Processor {
    let options = ProcessorOptions {
        guarantee: Guarantee::ExactlyOnce(Arc::clone(&node.replicas)),
        timing: Timing::new(Duration::from_millis(150), Duration::from_millis(900)),
        strategy: Strategy::GREEDY,
        batch: 500,
        ..ProcessorOptions::default()
    };
    let started = node
        .hubs
        .process("houses", "$Default", options, Arc::new(Houses));
    started.await.unwrap()
}

/// Each house reports once, to the partition of its key.
async fn report(node: &Node) {
    let mut batches: BTreeMap<u32, Batch> = BTreeMap::new();
    for house in 0..HOUSES {
        let partition = partition_of(&format!("house-{house}"), PARTITIONS);
        let batch = batches.entry(partition).or_default();
        batch
            .push(format!("{house} {}", house % 40).as_bytes())
            .unwrap();
        if batch.count() == 500 {
            send(node, partition, std::mem::take(batch)).await;
        }
    }
    for (partition, batch) in batches {
        send(node, partition, batch).await;
    }
}

async fn send(node: &Node, partition: u32, batch: Batch) {
    let sender = node.hubs.sender("houses", Some(partition)).await.unwrap();
    sender.send(batch).await.unwrap();
}

async fn until_done(node: &Node) {
    let done = async {
        loop {
            let standings = node.hubs.standings("houses", "$Default").await.unwrap();
            if standings.iter().all(|one| one.lag == 0) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), done)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_house_is_counted_once_while_processors_come_and_are_killed() {
    let node = start().await;
    node.hubs
        .create(Definition::new("houses", PARTITIONS))
        .await
        .unwrap();
    let come_and_go = async {
        let mut processors = vec![processor(&node).await, processor(&node).await];
        for _ in 0..4 {
            tokio::time::sleep(Duration::from_millis(300)).await;
            processors.push(processor(&node).await);
            // Dropped is killed.
            processors.swap_remove(0);
        }
        processors
    };
    let ((), processors) = tokio::join!(report(&node), come_and_go);
    until_done(&node).await;
    assert_eq!(node.hubs.reader_counts().overlaps, 0);
    for processor in processors {
        processor.stop().await;
    }

    let blobs = Blobs::new(&node.runtime, node.hubs.clone());
    blobs.create_container(BOX, Vec::new()).await.unwrap();
    let mut counted = 0;
    for partition in 0..PARTITIONS {
        counted += upload(&node, &blobs, partition).await;
    }
    assert_eq!(counted, HOUSES);
    let partition = partition_of("house-42", PARTITIONS);
    let name = format!("aggregate/{partition}.json");
    let (blob, body) = blobs.read(BOX, &name, None).await.unwrap();
    assert_eq!(blob.content_type, "application/json");
    let page: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(page["42"], serde_json::json!({"reports": 1, "warmth": 2}));
}

/// Keeps the aggregates of a partition as a blob; answers how many houses it has.
async fn upload(node: &Node, blobs: &Blobs, partition: u32) -> u32 {
    let hub = node.hubs.get("houses").await.unwrap();
    let slot = steadfast_events::SLOT;
    let place = node.runtime.space().slot(slot, "houses", partition);
    let replica = node.replicas.of(place).await.unwrap();
    let state = replica.scope(&format!("events/{}/$default/{partition}", hub.id));
    let houses: Dictionary<u32, (u32, u32)> = state.get_or_add("houses").await.unwrap();
    let mut tx = replica.begin();
    let rows = houses.entries(&mut tx, Query::all()).await.unwrap();
    let mut page = serde_json::Map::new();
    for (house, found) in &rows {
        let (reports, warmth) = **found;
        assert_eq!((reports, warmth), (1, house % 40), "house {house}");
        let aggregate = serde_json::json!({"reports": reports, "warmth": warmth});
        page.insert(house.to_string(), aggregate);
    }
    let put = Put {
        name: format!("aggregate/{partition}.json"),
        body: serde_json::to_vec(&page).unwrap().into(),
        content_type: "application/json".into(),
        ..Put::default()
    };
    blobs.put(BOX, put, Conditions::default()).await.unwrap();
    rows.len() as u32
}

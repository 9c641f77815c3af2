//! Tailing an event hub, at its owner and at other nodes.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use steadfast_core::id::Partition;
use steadfast_events::{EventDataBatch, EventHubDefinition, EventPosition, PartitionReader};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::node::BenchClusterNode;
use super::settings::Settings;
use crate::report::Report;
use crate::samples::Samples;
use crate::stopwatch::Stopwatch;

const HUB: &str = "tail";

/// The size of an event in a burst, and the events of one publication.
const EVENT_BYTES: usize = 1024;
const EVENTS_PER_BATCH: usize = 64;

/// The pause between two events when lateness is measured.
const PAUSE: Duration = Duration::from_millis(2);

/// Readers at each node when all of them follow one partition: the maximum.
const READERS: usize = 5;

pub(super) async fn measure(
    settings: &Settings,
    nodes: &[BenchClusterNode],
    report: &mut Report,
) -> Result<()> {
    nodes[0]
        .hubs
        .ensure(EventHubDefinition::new(HUB, 1))
        .await?;
    let owner = owner(nodes).await?;
    let other = (owner + 1) % nodes.len();
    let all = nodes.iter().flat_map(|node| [node; READERS]);
    for (reading, way) in [
        (vec![&nodes[owner]], "tail_owner".to_owned()),
        (vec![&nodes[other]], "tail_other_node".to_owned()),
        (
            all.collect(),
            format!("fanout_{}_readers", READERS * nodes.len()),
        ),
    ] {
        let mut late = Box::pin(lateness(settings, &nodes[owner], &reading)).await?;
        let figures = &mut report.figures;
        figures.record(format!("event_{way}_p50_us"), late.percentile_us(50.0));
        figures.record(format!("event_{way}_p99_us"), late.percentile_us(99.0));
        let rate = Box::pin(burst(settings, &nodes[owner], &reading)).await?;
        figures.record(format!("event_{way}_mb_per_s"), rate);
    }
    Ok(())
}

/// The node whose partition handles publications.
async fn owner(nodes: &[BenchClusterNode]) -> Result<usize> {
    const EVENTS: u64 = 50;
    let commands =
        || -> Vec<Vec<(Partition, u64)>> { nodes.iter().map(BenchClusterNode::commands).collect() };
    let before = commands();
    let sender = nodes[0].hubs.sender(HUB, Some(0)).await?;
    for _ in 0..EVENTS {
        sender.send(EventDataBatch::of(b"where?")?).await?;
    }
    let after = commands();
    let served = before.iter().zip(&after).map(|(before, after)| {
        let grown = after.iter().map(|(partition, count)| {
            let former = before.iter().find(|(own, _)| own == partition);
            count - former.map_or(0, |(_, count)| *count)
        });
        grown.max().unwrap_or(0)
    });
    let most = served.enumerate().max_by_key(|(_, grown)| *grown);
    let (owner, grown) = most.context("there is no node")?;
    anyhow::ensure!(grown >= EVENTS, "no partition has handled the events");
    Ok(owner)
}

async fn tails(reading: &[&BenchClusterNode]) -> Result<Vec<PartitionReader>> {
    let mut readers = Vec::new();
    for node in reading {
        readers.push(node.hubs.observer(HUB, 0, EventPosition::Latest).await?);
    }
    Ok(readers)
}

/// For each event, the time from its publication until the last reader has it.
async fn lateness(
    settings: &Settings,
    owner: &BenchClusterNode,
    reading: &[&BenchClusterNode],
) -> Result<Samples> {
    let run = Arc::new(Stopwatch::start());
    let events = settings.events;
    let mut following = JoinSet::new();
    for reader in tails(reading).await? {
        following.spawn(follow(reader, events, Arc::clone(&run)));
    }
    let sender = owner.hubs.sender(HUB, Some(0)).await?;
    for _ in 0..events {
        let time = run.elapsed().as_nanos() as u64;
        sender
            .send(EventDataBatch::of(&time.to_be_bytes())?)
            .await?;
        tokio::time::sleep(PAUSE).await;
    }
    let mut last = vec![Duration::ZERO; events];
    while let Some(found) = following.join_next().await {
        for (last, late) in last.iter_mut().zip(found??) {
            *last = late.max(*last);
        }
    }
    let mut samples = Samples::default();
    for late in last {
        samples.push(late);
    }
    Ok(samples)
}

/// The lateness of each event at one reader.
async fn follow(
    mut reader: PartitionReader,
    events: usize,
    run: Arc<Stopwatch>,
) -> Result<Vec<Duration>> {
    let mut late = Vec::with_capacity(events);
    while late.len() < events {
        let mut publication = reader.next().await?;
        let now = run.elapsed();
        while let Some(event) = publication.next_event()? {
            let time = event.body[..].try_into().context("an event of 8 bytes")?;
            late.push(now - Duration::from_nanos(u64::from_be_bytes(time)));
        }
    }
    Ok(late)
}

/// MB per second that all readers together receive while events are published at full
/// rate.
async fn burst(
    settings: &Settings,
    owner: &BenchClusterNode,
    reading: &[&BenchClusterNode],
) -> Result<f64> {
    let (tell, total) = watch::channel(None);
    let mut following = JoinSet::new();
    for mut reader in tails(reading).await? {
        let mut total = total.clone();
        following.spawn(async move {
            let mut found = 0;
            while *total.borrow() != Some(found) {
                tokio::select! {
                    publication = reader.next() => found += publication?.left() as usize,
                    told = total.changed() => told?,
                }
            }
            anyhow::Ok(found)
        });
    }
    let run = Stopwatch::start();
    tell.send_replace(Some(publish(settings, owner, &run).await?));
    let mut found = 0;
    while let Some(one) = following.join_next().await {
        found += one??;
    }
    Ok((found * EVENT_BYTES) as f64 / 1e6 / run.seconds())
}

/// Publishes at full rate; returns the number of events.
async fn publish(settings: &Settings, owner: &BenchClusterNode, run: &Stopwatch) -> Result<usize> {
    let sender = owner.hubs.sender(HUB, Some(0)).await?;
    let mut sent = 0usize;
    let mut open = std::collections::VecDeque::new();
    while run.elapsed() < settings.duration() {
        let mut batch = EventDataBatch::new();
        for _ in 0..EVENTS_PER_BATCH {
            batch.push(&[7; EVENT_BYTES])?;
        }
        open.push_back(sender.submit(batch).await?);
        sent += EVENTS_PER_BATCH;
        if open.len() >= 16
            && let Some(first) = open.pop_front()
        {
            first.published().await?;
        }
    }
    for rest in open {
        rest.published().await?;
    }
    Ok(sent)
}

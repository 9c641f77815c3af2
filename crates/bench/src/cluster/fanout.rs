//! The tail of an event hub, at its owner and elsewhere.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use steadfast_core::id::Partition;
use steadfast_events::{Batch, Definition, Position, Reader};

use super::node::Node;
use super::settings::Settings;
use crate::report::Report;
use crate::samples::Samples;
use crate::stopwatch::Stopwatch;

const HUB: &str = "tail";

/// Events of a burst, their size, and how many are sent in one publication.
const EVENT_BYTES: usize = 1024;
const EVENTS_PER_BATCH: usize = 64;

/// Between two events of which each is waited for.
const PAUSE: Duration = Duration::from_millis(2);

pub(super) async fn measure(
    settings: &Settings,
    nodes: &[Node],
    report: &mut Report,
) -> Result<()> {
    nodes[0].hubs.ensure(Definition::new(HUB, 1)).await?;
    let owner = owner(nodes).await?;
    let other = (owner + 1) % nodes.len();
    for (node, way) in [(owner, "owner"), (other, "other_node")] {
        let mut late = Box::pin(lateness(settings, &nodes[owner], &nodes[node])).await?;
        let figures = &mut report.figures;
        figures.record(format!("event_tail_{way}_p50_us"), late.percentile_us(50.0));
        figures.record(format!("event_tail_{way}_p99_us"), late.percentile_us(99.0));
        let rate = Box::pin(burst(settings, &nodes[owner], &nodes[node])).await?;
        figures.record(format!("event_tail_{way}_mb_per_s"), rate);
    }
    Ok(())
}

/// The node whose partition handles what is published.
async fn owner(nodes: &[Node]) -> Result<usize> {
    const EVENTS: u64 = 50;
    let commands = || -> Vec<Vec<(Partition, u64)>> { nodes.iter().map(Node::commands).collect() };
    let before = commands();
    let sender = nodes[0].hubs.sender(HUB, Some(0)).await?;
    for _ in 0..EVENTS {
        sender.send(Batch::of(b"where?")?).await?;
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

async fn tail(node: &Node) -> Result<Reader> {
    Ok(node.hubs.observer(HUB, 0, Position::Latest).await?)
}

/// How long after its sender has begun to publish it an event is there, of each.
async fn lateness(settings: &Settings, owner: &Node, reading: &Node) -> Result<Samples> {
    let mut reader = tail(reading).await?;
    let run = Arc::new(Stopwatch::start());
    let sender = owner.hubs.sender(HUB, Some(0)).await?;
    let (events, sent) = (settings.events, Arc::clone(&run));
    let sending = tokio::spawn(async move {
        for _ in 0..events {
            let time = sent.elapsed().as_nanos() as u64;
            sender.send(Batch::of(&time.to_be_bytes())?).await?;
            tokio::time::sleep(PAUSE).await;
        }
        anyhow::Ok(())
    });
    let mut samples = Samples::default();
    while samples.len() < events {
        let mut publication = reader.next().await?;
        let now = run.elapsed();
        while let Some(event) = publication.next_event()? {
            let time = event.body[..].try_into().context("an event of 8 bytes")?;
            samples.push(now - Duration::from_nanos(u64::from_be_bytes(time)));
        }
    }
    sending.await??;
    Ok(samples)
}

/// MB per second that a tail gets while everything is published that can be.
async fn burst(settings: &Settings, owner: &Node, reading: &Node) -> Result<f64> {
    let mut reader = tail(reading).await?;
    let run = Arc::new(Stopwatch::start());
    let sender = owner.hubs.sender(HUB, Some(0)).await?;
    let (duration, clock) = (settings.duration(), Arc::clone(&run));
    let sending = tokio::spawn(async move {
        let mut sent = 0usize;
        let mut open = std::collections::VecDeque::new();
        while clock.elapsed() < duration {
            let mut batch = Batch::new();
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
        anyhow::Ok(sent)
    });
    let mut sending = std::pin::pin!(sending);
    let (mut found, mut sent) = (0, None);
    while sent != Some(found) {
        tokio::select! {
            publication = reader.next() => found += publication?.left() as usize,
            done = &mut sending, if sent.is_none() => sent = Some(done??),
        }
    }
    Ok((found * EVENT_BYTES) as f64 / 1e6 / run.seconds())
}

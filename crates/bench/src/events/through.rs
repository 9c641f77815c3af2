//! The throughput of sending and of receiving.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::task::JoinSet;

use super::link::{LOAD_HUB, LOAD_PARTITIONS, ReceiverClient, SenderClient, batch};
use super::server::EventServer;
use super::settings::Settings;
use crate::report::{GoalBound, Report};
use crate::stopwatch::Stopwatch;

/// Bytes of an event, events of a batch, and batches in flight per link.
const EVENT_BYTES: usize = 1024;
const BATCH_EVENTS: u32 = 200;
const AHEAD: usize = 16;

/// Measures both; returns the events sent per second.
pub(super) fn measure(settings: &Settings, report: &mut Report) -> Result<f64> {
    let folder = settings.temporary()?;
    let server = EventServer::start(settings, &folder.path().join("data"))?;
    let tasks = tokio::runtime::Runtime::new()?;
    let (events, seconds) = tasks.block_on(send(server.port, settings.duration))?;
    let bytes = events as f64 * EVENT_BYTES as f64;
    let goals = &mut report.goals;
    let bound = GoalBound::AtLeast(100.0);
    goals.record("in", "MB/s", bound, bytes / 1e6 / seconds);
    report
        .figures
        .record("in_events_per_s", events as f64 / seconds);
    let read = tasks.block_on(receive(server.port, events))?;
    let bound = GoalBound::AtLeast(200.0);
    report
        .goals
        .record("out", "MB/s", bound, bytes / 1e6 / read);
    report
        .figures
        .record("out_events_per_s", events as f64 / read);
    report
        .figures
        .record("server_resident_mb", server.child.resident_mb()?);
    let limits = &report.limits;
    let (disk, wire) = (limits.largest("disk_synced"), limits.largest("loopback"));
    let figures = &mut report.figures;
    figures.record("in_of_disk_synced_x", bytes / 1e6 / seconds / disk);
    figures.record("out_of_loopback_x", bytes / 1e6 / read / wire);
    Ok(events as f64 / seconds)
}

/// Sends for a while, by one link per partition; returns the events, and the seconds
/// until all of them were durable.
async fn send(port: u16, duration: Duration) -> Result<(u64, f64)> {
    let message: std::sync::Arc<[u8]> = batch(BATCH_EVENTS, EVENT_BYTES).into();
    let mut links = Vec::new();
    for partition in 0..LOAD_PARTITIONS {
        links.push(SenderClient::open(port, partition).await?);
    }
    let watch = Stopwatch::start();
    let mut work = JoinSet::new();
    for mut link in links {
        let message = std::sync::Arc::clone(&message);
        work.spawn(async move {
            let began = link.now();
            while link.now() - began < duration {
                while link.under_way() < AHEAD {
                    let now = link.now();
                    link.send(&message, now);
                }
                link.flush().await?;
                link.take().await?;
            }
            link.end().await
        });
    }
    let mut batches = 0;
    while let Some(done) = work.join_next().await {
        batches += done.context("a sender has panicked")??.0;
    }
    Ok((batches * u64::from(BATCH_EVENTS), watch.seconds()))
}

/// Reads everything, by one link per partition; returns the seconds.
async fn receive(port: u16, events: u64) -> Result<f64> {
    let watch = Stopwatch::start();
    let (told, mut came) = tokio::sync::mpsc::channel(1024);
    let mut work = JoinSet::new();
    for partition in 0..LOAD_PARTITIONS {
        let told = told.clone();
        work.spawn(async move {
            let mut link = ReceiverClient::open(port, LOAD_HUB, partition).await?;
            while told.send(link.take().await?).await.is_ok() {}
            Ok::<_, anyhow::Error>(())
        });
    }
    drop(told);
    let mut seen = 0;
    while seen < events {
        seen += came.recv().await.context("a reader has ended")?;
    }
    Ok(watch.seconds())
}

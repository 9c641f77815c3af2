//! Very many small events: memory, and the restart.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use tokio::task::JoinSet;

use super::link::{LOAD_PARTITIONS, SenderClient, batch};
use super::server::EventServer;
use super::settings::Settings;
use crate::report::{GoalBound, Report};
use crate::stopwatch::Stopwatch;

const EVENT_BYTES: usize = 100;
const BATCH_EVENTS: u32 = 1000;
const AHEAD: usize = 16;

/// Memory growth in the second half that is tolerated, in MB.
const FLAT: f64 = 32.0;

pub(super) fn measure(settings: &Settings, report: &mut Report) -> Result<()> {
    let folder = settings.temporary()?;
    let data = folder.path().join("data");
    let server = EventServer::start(settings, &data)?;
    let tasks = tokio::runtime::Runtime::new()?;
    let watch = Stopwatch::start();
    let mut sent = tasks.block_on(send(server.port, settings.small / 2))?;
    let half = server.child.resident_mb()?;
    sent += tasks.block_on(send(server.port, settings.small / 2))?;
    let end = server.child.resident_mb()?;
    let rate = sent as f64 / watch.seconds();
    report.figures.record("small_events", sent as f64);
    report.figures.record("small_events_per_s", rate);
    report.figures.record("resident_mb_with_small_events", end);
    let growth = (end - half).max(0.0);
    let goals = &mut report.goals;
    goals.record(
        "growth_in_second_half",
        "MB",
        GoalBound::Below(FLAT),
        growth,
    );
    // Kills the server, like a crash.
    drop(server);
    let seconds = start(settings, &data)?;
    report
        .goals
        .record("restart", "s", GoalBound::Below(2.0), seconds);
    Ok(())
}

fn start(settings: &Settings, data: &Path) -> Result<f64> {
    let watch = Stopwatch::start();
    let server = EventServer::start(settings, data)?;
    let seconds = watch.seconds();
    drop(server);
    Ok(seconds)
}

/// Sends about this many events, by one link per partition.
async fn send(port: u16, events: u64) -> Result<u64> {
    let message: Arc<[u8]> = batch(BATCH_EVENTS, EVENT_BYTES).into();
    let each = events.div_ceil(u64::from(BATCH_EVENTS) * u64::from(LOAD_PARTITIONS));
    let mut work = JoinSet::new();
    for partition in 0..LOAD_PARTITIONS {
        let (message, mut link) = (
            Arc::clone(&message),
            SenderClient::open(port, partition).await?,
        );
        work.spawn(async move {
            for _ in 0..each {
                let now = link.now();
                link.send(&message, now);
                link.flush().await?;
                while link.under_way() >= AHEAD {
                    link.take().await?;
                }
            }
            link.end().await
        });
    }
    let mut batches = 0;
    while let Some(done) = work.join_next().await {
        batches += done.context("a sender has panicked")??.0;
    }
    Ok(batches * u64::from(BATCH_EVENTS))
}

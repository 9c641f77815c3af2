//! Acknowledgement latency at half the required rate.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::task::JoinSet;

use super::link::{LOAD_PARTITIONS, SenderClient, batch};
use super::server::EventServer;
use super::settings::Settings;
use crate::report::{GoalBound, Report};
use crate::samples::Samples;

const EVENT_BYTES: usize = 1024;
/// Events of a batch: what a device gateway gathers in a few milliseconds.
const BATCH_EVENTS: u32 = 64;
/// Half of the required rate of sending.
const BYTES_PER_S: f64 = 50e6;

pub(super) fn measure(settings: &Settings, report: &mut Report) -> Result<()> {
    let folder = settings.temporary()?;
    let server = EventServer::start(settings, &folder.path().join("data"))?;
    let tasks = tokio::runtime::Runtime::new()?;
    let (batches, mut taken) = tasks.block_on(send(server.port, settings.duration))?;
    let seconds = settings.duration.as_secs_f64();
    let bytes = batches as f64 * f64::from(BATCH_EVENTS) * EVENT_BYTES as f64;
    report.figures.record("paced_mb_s", bytes / 1e6 / seconds);
    report
        .figures
        .record("ack_p50_ms", taken.percentile_us(50.0) / 1e3);
    let p99 = taken.percentile_us(99.0) / 1e3;
    report
        .goals
        .record("ack_p99", "ms", GoalBound::Below(20.0), p99);
    Ok(())
}

/// Sends at the rate. Times count from when a batch was due, so that a stall is not
/// hidden by batches that were not sent.
async fn send(port: u16, duration: Duration) -> Result<(u64, Samples)> {
    let message: Arc<[u8]> = batch(BATCH_EVENTS, EVENT_BYTES).into();
    let bytes = f64::from(BATCH_EVENTS) * EVENT_BYTES as f64;
    let pause = Duration::from_secs_f64(bytes * f64::from(LOAD_PARTITIONS) / BYTES_PER_S);
    let mut work = JoinSet::new();
    for partition in 0..LOAD_PARTITIONS {
        let (message, mut link) = (
            Arc::clone(&message),
            SenderClient::open(port, partition).await?,
        );
        work.spawn(async move {
            let began = link.now();
            let mut due = began;
            while due - began < duration {
                let wait = due.saturating_sub(link.now());
                // Acknowledgements are taken while nothing is due.
                if let Ok(taken) = tokio::time::timeout(wait, link.take()).await {
                    taken?;
                }
                if due <= link.now() {
                    link.send(&message, due);
                    link.flush().await?;
                    due += pause;
                }
            }
            link.end().await
        });
    }
    let (mut batches, mut all) = (0, Samples::default());
    while let Some(done) = work.join_next().await {
        let (sent, taken) = done.context("a sender has panicked")??;
        batches += sent;
        all.extend(taken);
    }
    Ok((batches, all))
}

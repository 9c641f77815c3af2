//! Event streams: bytes in, bytes out.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, ensure};
use bytes::Bytes;
use steadfast_core::id::{Sequence, StreamId};
use steadfast_storage::engine::ReadPosition;
use steadfast_storage::{Ledger, Writes};

use super::load::commit_patiently;
use super::session::{Session, options};
use super::settings::Settings;
use super::write_counters::WriteCounters;
use crate::disk::{BATCH_BYTES, forget_cached, read_file, write_batches};
use crate::process::settle;
use crate::report::{GoalBound, Report};
use crate::stopwatch::Stopwatch;

const STREAM: StreamId = StreamId(1);

/// Publications in flight.
const IN_FLIGHT: u64 = 8;

/// The size of a reader's request.
const READ_BYTES: usize = 1024 * 1024;

const MB: f64 = 1e6;

pub(super) fn measure(settings: &Settings, report: &mut Report) -> Result<()> {
    for _ in 0..settings.rounds {
        let folder = settings.temporary()?;
        let limit_file = folder.path().join("limit.events");
        let limit = write_batches(&limit_file, settings.event_bytes)?;
        let name = "sequential_256_kib_write_and_fdatasync_mb_per_s";
        report.limits.record(name, limit / MB);
        measure_reads(&limit_file, report)?;
        settle()?;

        let data = folder.path().join("data");
        let ours = publish(&data, settings.event_bytes, report)?;
        report.figures.record("events_mb_per_s", ours / MB);
        let (name, bound) = ("events_over_sequential_write", GoalBound::AtLeast(0.6));
        report.goals.record(name, "ratio", bound, ours / limit);
        measure_catch_up(&data, settings.event_bytes, report)?;
        fs::remove_dir_all(&data)?;

        let session = Session::open(&data, options())?;
        let alone = publish_all(&session, 1, settings.event_bytes / 4)?;
        report
            .figures
            .record("events_1_in_flight_mb_per_s", alone / MB);
    }
    Ok(())
}

fn measure_reads(file: &Path, report: &mut Report) -> Result<()> {
    let cached = read_file(file)?;
    forget_cached(file)?;
    let cold = read_file(file)?;
    let limits = &mut report.limits;
    limits.record("sequential_read_mb_per_s", cold / MB);
    limits.record("sequential_cached_read_mb_per_s", cached / MB);
    Ok(())
}

/// Bytes per second with several publications in flight.
fn publish(data: &Path, bytes: u64, report: &mut Report) -> Result<f64> {
    let session = Session::open(data, options())?;
    let written = WriteCounters::count(&session, data)?;
    let speed = publish_all(&session, IN_FLIGHT, bytes)?;
    written.record(&session, data, "events", bytes as f64, report)?;
    Ok(speed)
}

fn publish_all(session: &Session, in_flight: u64, bytes: u64) -> Result<f64> {
    let mut batch = vec![0; BATCH_BYTES];
    fastrand::fill(&mut batch);
    let batch = Bytes::from(batch);
    let left = Arc::new(AtomicU64::new(bytes / BATCH_BYTES as u64));
    let run = Stopwatch::start();
    let start = |_| {
        let ledger = session.ledger_of(0).clone();
        let publishing = publish_some(ledger, batch.clone(), Arc::clone(&left));
        session.runtime.spawn(publishing)
    };
    let tasks: Vec<_> = (0..in_flight).map(start).collect();
    session.runtime.block_on(async {
        for task in tasks {
            task.await??;
        }
        anyhow::Ok(())
    })?;
    Ok(bytes as f64 / run.seconds())
}

async fn publish_some(ledger: Ledger, batch: Bytes, left: Arc<AtomicU64>) -> Result<()> {
    let take = |left: u64| left.checked_sub(1);
    let order = Ordering::Relaxed;
    while left.fetch_update(order, order, take).is_ok() {
        let writes = || {
            let mut writes = Writes::new();
            writes.publish(STREAM, 1, batch.clone());
            writes
        };
        commit_patiently(&ledger, writes).await?;
    }
    Ok(())
}

/// A reader that starts at the beginning: nothing is in memory after a reopen.
fn measure_catch_up(data: &Path, bytes: u64, report: &mut Report) -> Result<()> {
    let session = Session::open(data, options())?;
    let cached = read_all(&session, bytes)?;
    forget_cached(&data.join("events"))?;
    let cold = read_all(&session, bytes)?;
    let figures = &mut report.figures;
    figures.record("catch_up_read_mb_per_s", cold / MB);
    figures.record("catch_up_cached_read_mb_per_s", cached / MB);
    Ok(())
}

fn read_all(session: &Session, bytes: u64) -> Result<f64> {
    let ledger = session.ledger_of(0).clone();
    let reading = session.runtime.spawn(async move {
        let run = Stopwatch::start();
        let (mut next, mut found) = (Sequence(0), 0);
        loop {
            let from = ReadPosition::Sequence(next);
            let batches = ledger.read_events(STREAM, from, READ_BYTES).await?;
            let Some(last) = batches.last() else {
                break;
            };
            next = last.next();
            found += batches.iter().map(|b| b.bytes.len() as u64).sum::<u64>();
        }
        anyhow::Ok((found, run.seconds()))
    });
    let (found, seconds) = session.runtime.block_on(reading)??;
    ensure!(found == bytes, "read {found} of {bytes} event bytes back");
    Ok(bytes as f64 / seconds)
}

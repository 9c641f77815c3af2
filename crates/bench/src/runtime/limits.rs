//! The limits of the machine: its disk and its processors.

use std::time::Duration;

use anyhow::{Context, Result};

use super::settings::Settings;
use crate::disk::{LogFile, write_batches};
use crate::process::settle;
use crate::report::Report;
use crate::stopwatch::Stopwatch;

/// Measures the limits; returns the disk's bytes per second.
pub(super) fn measure(settings: &Settings, report: &mut Report) -> Result<f64> {
    let folder = settings.temporary()?;
    let mut file = LogFile::create(folder.path())?;
    let mut rates = Vec::new();
    settle()?;
    for round in 0..settings.rounds {
        let mut syncs = file.sync_for(settings.duration)?;
        let limits = &mut report.limits;
        limits.record("fdatasync_p50_us", syncs.percentile_us(50.0));
        limits.record("fdatasync_p99_us", syncs.percentile_us(99.0));
        let path = folder.path().join(format!("limit.{round}"));
        let bytes = (settings.duration.as_secs_f64() * 20e6) as u64;
        let rate = write_batches(&path, bytes)?;
        let name = "sequential_256_kib_write_and_fdatasync_mb_per_s";
        limits.record(name, rate / 1e6);
        rates.push(rate);
        let gap = longest_gap(settings.duration).as_secs_f64() * 1e3;
        limits.record("longest_time_without_processor_ms", gap);
    }
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().context("no rounds")
}

/// The longest time for which a thread that always has work was not running.
fn longest_gap(duration: Duration) -> Duration {
    let run = Stopwatch::start();
    let (mut last, mut longest) = (run.elapsed(), Duration::ZERO);
    while last < duration {
        let now = run.elapsed();
        longest = longest.max(now - last);
        last = now;
    }
    longest
}

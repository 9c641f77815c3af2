//! One run of all measurements of the area.

use std::time::Duration;

use anyhow::{Context, Result};

use super::settings::Settings;
use super::{entities, idle, orchestrations, peer, remote};
use crate::disk::LogFile;
use crate::machine::Machine;
use crate::report::Report;

/// How long the disk's limit is measured.
const LIMIT: Duration = Duration::from_millis(500);

/// Measures everything.
pub fn run(settings: &Settings) -> Result<Report> {
    let mut report = Report::new("durable", Machine::look(&settings.folder));
    let sync_us = limit(settings, &mut report).context("limits")?;
    entities::measure(settings, &mut report, sync_us).context("entities")?;
    orchestrations::measure(settings, &mut report).context("orchestrations")?;
    remote::measure(settings, &mut report).context("over gRPC")?;
    peer::measure(settings, &mut report).context("peer")?;
    peer::compare(&mut report);
    idle::measure(settings, &mut report).context("idle entities")?;
    Ok(report)
}

/// Measures the limits; returns the median time of a sync in microseconds.
fn limit(settings: &Settings, report: &mut Report) -> Result<f64> {
    let folder = settings.temporary()?;
    let mut syncs = LogFile::create(folder.path())?.sync_for(LIMIT)?;
    let limits = &mut report.limits;
    let median = syncs.percentile_us(50.0);
    limits.record("fdatasync_p50_us", median);
    limits.record("fdatasync_p99_us", syncs.percentile_us(99.0));
    Ok(median)
}

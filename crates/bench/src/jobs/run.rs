//! One run of all measurements of the area.

use std::time::Duration;

use anyhow::{Context, Result};

use super::settings::Settings;
use super::{burst, lateness, peer, restart};
use crate::disk::LogFile;
use crate::machine::Machine;
use crate::report::Report;

/// How long the disk's limit is measured.
const LIMIT: Duration = Duration::from_millis(500);

/// Measures everything.
pub fn run(settings: &Settings) -> Result<Report> {
    let mut report = Report::new("jobs", Machine::look(&settings.folder));
    limit(settings, &mut report).context("limits")?;
    for _ in 0..settings.rounds {
        let own = burst::measure(settings, &mut report).context("burst")?;
        peer::measure(settings, own, &mut report).context("peer")?;
    }
    let folder = settings.temporary()?;
    let data = folder.path().join("data");
    lateness::measure(settings, &mut report, &data).context("lateness")?;
    drop(folder);
    restart::measure(settings, &mut report).context("restart")?;
    Ok(report)
}

fn limit(settings: &Settings, report: &mut Report) -> Result<()> {
    let folder = settings.temporary()?;
    let mut syncs = LogFile::create(folder.path())?.sync_for(LIMIT)?;
    let limits = &mut report.limits;
    limits.record("fdatasync_p50_us", syncs.percentile_us(50.0));
    limits.record("fdatasync_p99_us", syncs.percentile_us(99.0));
    Ok(())
}

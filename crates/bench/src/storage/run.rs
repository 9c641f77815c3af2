//! One run of all measurements of the area.

use anyhow::{Context, Result};

use super::settings::Settings;
use super::{append, commits, events, reads, recovery, reopen};
use crate::machine::Machine;
use crate::process;
use crate::report::Report;

/// Measures everything.
pub fn run(settings: &Settings) -> Result<Report> {
    let mut report = Report::new("storage", Machine::look(&settings.folder));
    append::measure(settings, &mut report).context("append")?;
    commits::measure(settings, &mut report).context("commits")?;
    events::measure(settings, &mut report).context("events")?;
    reads::measure(settings, &mut report).context("reads")?;
    recovery::measure(settings, &mut report).context("recovery")?;
    reopen::measure(settings, &mut report).context("reopen")?;
    let resident = process::resident_mb(std::process::id())?;
    let figures = &mut report.figures;
    figures.record("bench_process_resident_mb", resident);
    figures.record("measurement_s", settings.duration.as_secs_f64());
    figures.record("rounds", f64::from(settings.rounds));
    Ok(report)
}

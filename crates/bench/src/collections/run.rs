//! One run of all measurements of the area.

use anyhow::{Context, Result};

use super::settings::Settings;
use super::{commits, hot, memory, reads, scans};
use crate::machine::Machine;
use crate::report::Report;

/// Measures everything.
pub fn run(settings: &Settings) -> Result<Report> {
    let mut report = Report::new("collections", Machine::look(&settings.folder));
    commits::measure(settings, &mut report).context("commits")?;
    hot::measure(settings, &mut report).context("hot row")?;
    reads::measure(settings, &mut report).context("reads")?;
    scans::measure(settings, &mut report).context("scans")?;
    memory::measure(settings, &mut report).context("memory")?;
    let figures = &mut report.figures;
    figures.record("measurement_s", settings.duration.as_secs_f64());
    figures.record("rounds", f64::from(settings.rounds));
    Ok(report)
}

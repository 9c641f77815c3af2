//! One run of all measurements of the area.

use anyhow::{Context, Result};

use super::settings::Settings;
use super::{commands, limits, outbox, timers};
use crate::machine::Machine;
use crate::process;
use crate::report::{GoalBound, Report};

/// Measures everything.
pub fn run(settings: &Settings) -> Result<Report> {
    let mut report = Report::new("runtime", Machine::look(&settings.folder));
    let disk = limits::measure(settings, &mut report).context("limits")?;
    commands::measure(settings, &mut report, disk).context("commands")?;
    timers::measure(settings, &mut report).context("timers")?;
    outbox::measure(settings, &mut report).context("outbox")?;
    let longest = report.figures.largest("longest_turn_ms");
    let (name, bound) = ("longest_turn", GoalBound::Below(5.0));
    report.goals.record(name, "ms", bound, longest);
    let resident = process::resident_mb(std::process::id())?;
    let figures = &mut report.figures;
    figures.record("bench_process_resident_mb", resident);
    figures.record("measurement_s", settings.duration.as_secs_f64());
    figures.record("rounds", f64::from(settings.rounds));
    Ok(report)
}

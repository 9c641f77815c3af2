//! One run of all measurements of the area.

use anyhow::{Context, Result};

use super::settings::Settings;
use super::{idle, limits, many, peer, rate, through};
use crate::machine::Machine;
use crate::process::allow_files;
use crate::report::Report;

/// Measures everything.
pub fn run(settings: &Settings) -> Result<Report> {
    allow_files();
    let mut report = Report::new("events", Machine::look(&settings.folder));
    for _ in 0..settings.rounds {
        limits::measure(settings, &mut report).context("limits")?;
        let own = through::measure(settings, &mut report).context("in and out")?;
        peer::measure(settings, own, &mut report).context("peer")?;
        rate::measure(settings, &mut report).context("acknowledgements")?;
    }
    idle::measure(settings, &mut report).context("idle consumers")?;
    many::measure(settings, &mut report).context("many events")?;
    Ok(report)
}

//! Recovery: how fast a log is replayed.

use anyhow::Result;

use super::load::fill_keys;
use super::session::{Session, options};
use super::settings::Settings;
use crate::report::Report;
use crate::stopwatch::Stopwatch;

pub(super) fn measure(settings: &Settings, report: &mut Report) -> Result<()> {
    let folder = settings.temporary()?;
    let data = folder.path().join("data");
    let mut unbounded = options();
    unbounded.log_target = u64::MAX / 2;
    unbounded.log_limit = u64::MAX / 2;
    let session = Session::open(&data, unbounded.clone())?;
    fill_keys(&session, settings.log_keys)?;
    let log_mb = session.unflushed() as f64 / 1e6;
    drop(session);
    report.figures.record("recovered_log_mb", log_mb);
    for _ in 0..settings.rounds {
        let run = Stopwatch::start();
        let session = Session::open(&data, unbounded.clone())?;
        let seconds = run.seconds();
        report.figures.record("recovery_s", seconds);
        let name = "recovery_mb_per_s";
        report.figures.record(name, log_mb / seconds);
        drop(session);
    }
    Ok(())
}

//! One writer: how much slower a commit is than a sync.

use anyhow::Result;

use super::load::put_for;
use super::session::{Session, options};
use super::settings::Settings;
use crate::disk::LogFile;
use crate::process::settle;
use crate::report::{GoalBound, Report};

pub(super) fn measure(settings: &Settings, report: &mut Report) -> Result<()> {
    let folder = settings.temporary()?;
    let mut file = LogFile::create(folder.path())?;
    let session = Session::open(&folder.path().join("data"), options())?;
    settle()?;
    for _ in 0..settings.rounds {
        let mut syncs = file.sync_for(settings.duration)?;
        let limit = syncs.percentile_us(50.0);
        report.limits.record("fdatasync_p50_us", limit);
        let limit_p99 = syncs.percentile_us(99.0);
        report.limits.record("fdatasync_p99_us", limit_p99);

        let mut load = put_for(&session, 1, settings.keys, settings.duration)?;
        let ours = load.latencies.percentile_us(50.0);
        report.figures.record("append_p50_us", ours);
        let ours_p99 = load.latencies.percentile_us(99.0);
        report.figures.record("append_p99_us", ours_p99);
        let bound = GoalBound::AtMost(2.0);
        let name = "append_p50_over_fdatasync_p50";
        report.goals.record(name, "ratio", bound, ours / limit);
    }
    Ok(())
}

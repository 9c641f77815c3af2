//! A restart with many jobs, and the cost of an idle job.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::registry::{collections, register};
use super::session::Session;
use super::settings::Settings;
use crate::child::Child;
use crate::disk::taken_bytes;
use crate::process::settle;
use crate::report::{GoalBound, Report};
use crate::stopwatch::Stopwatch;
use steadfast_core::clock::{Clock, SystemClock};

/// Time for a started node to become idle.
const REST: Duration = Duration::from_secs(3);

pub(super) fn measure(settings: &Settings, report: &mut Report) -> Result<()> {
    let folder = settings.temporary()?;
    let (empty, full) = (folder.path().join("empty"), folder.path().join("full"));
    drop(Session::open(&empty)?);
    let session = Session::open(&full)?;
    collections(&session)?;
    let in_a_day = SystemClock::new().now().0 + 86_400_000;
    let when = move |number: u64| (in_a_day + number as i64, Some(1000));
    let url = "http://127.0.0.1:9/";
    register(&session, "idle", settings.registered, url, when)?;
    session.flush()?;
    settle()?;
    drop(session);
    let jobs = settings.registered as f64;
    let disk = taken_bytes(&full.join("tables"))? as f64;
    report
        .figures
        .record("disk_bytes_per_idle_job", disk / jobs);
    let (_, without) = start(settings, &empty)?;
    let (seconds, with) = start(settings, &full)?;
    let each = (with - without).max(0.0) * 1e6 / jobs;
    report.figures.record("resident_mb_without_jobs", without);
    let goals = &mut report.goals;
    goals.record("restart", "s", GoalBound::AtMost(10.0), seconds);
    goals.record(
        "resident_per_idle_job",
        "bytes",
        GoalBound::AtMost(300.0),
        each,
    );
    Ok(())
}

/// Starts a node on a folder; returns the seconds that it took, and its memory in MB.
fn start(settings: &Settings, data: &Path) -> Result<(f64, f64)> {
    let arguments = [OsStr::new("jobs-child"), data.as_os_str()];
    let watch = Stopwatch::start();
    let child = Child::start(&settings.executable, arguments)?;
    let seconds = watch.seconds();
    std::thread::sleep(REST);
    Ok((seconds, child.resident_mb()?))
}

//! A restart with very many entities.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use steadfast_durable::EntityOperation;

use super::session::Session;
use super::settings::Settings;
use crate::child::Child;
use crate::disk::taken_bytes;
use crate::process::settle;
use crate::report::{GoalBound, Report};
use crate::stopwatch::Stopwatch;

/// Time for a started node to become idle.
const REST: Duration = Duration::from_secs(3);
/// Entities that are created concurrently.
const AT_A_TIME: u64 = 1024;

pub(super) fn measure(settings: &Settings, report: &mut Report) -> Result<()> {
    let folder = settings.temporary()?;
    let (empty, full) = (folder.path().join("empty"), folder.path().join("full"));
    drop(Session::open(&empty)?);
    let session = Session::open(&full)?;
    session.tasks.block_on(fill(&session, settings.idle))?;
    session.flush()?;
    settle()?;
    drop(session);
    let count = settings.idle as f64;
    let disk = taken_bytes(&full.join("tables"))? as f64;
    let figures = &mut report.figures;
    figures.record("disk_bytes_per_idle_entity", disk / count);
    let (_, without) = start(settings, &empty)?;
    let (seconds, with) = start(settings, &full)?;
    let each = (with - without).max(0.0) * 1e6 / count;
    report
        .figures
        .record("resident_mb_without_entities", without);
    let goals = &mut report.goals;
    goals.record(
        "resident_per_idle_entity",
        "bytes",
        GoalBound::Below(100.0),
        each,
    );
    goals.record("restart", "s", GoalBound::Below(3.0), seconds);
    Ok(())
}

async fn fill(session: &Session, count: u64) -> Result<()> {
    let mut clients = tokio::task::JoinSet::new();
    for first in 0..AT_A_TIME.min(count) {
        let hub = session.hub.clone();
        clients.spawn(async move {
            for key in (first..count).step_by(AT_A_TIME as usize) {
                let operation = EntityOperation {
                    name: "add".into(),
                    target: format!("@counter@{key}"),
                    input: Some("1".into()),
                    ..EntityOperation::default()
                };
                let answer = hub.call(operation).await?;
                answer.map_err(|failure| anyhow::anyhow!("{failure}"))?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(client) = clients.join_next().await {
        client??;
    }
    Ok(())
}

/// Starts a node on a folder; returns the seconds that it took, and its memory in MB.
fn start(settings: &Settings, data: &Path) -> Result<(f64, f64)> {
    let arguments = [OsStr::new("durable-child"), data.as_os_str()];
    let watch = Stopwatch::start();
    let child = Child::start(&settings.executable, arguments)?;
    let seconds = watch.seconds();
    std::thread::sleep(REST);
    Ok((seconds, child.resident_mb()?))
}

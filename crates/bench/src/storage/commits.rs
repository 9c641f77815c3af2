//! Many writers that share syncs, compared with the peer.
//!
//! Both sides start with the same keys in their tables and keep their folders over all
//! rounds, so that flushes and compactions are part of what is measured. Rates are
//! compared with ready-made groups, which the peer commits without waiting; latencies
//! with an equal number of writers that wait for the peer.

use std::path::Path;

use anyhow::Result;

use super::load::{ROW_BYTES, fill_keys, put_for};
use super::peer::FjallPeer;
use super::session::{Session, options};
use super::settings::Settings;
use super::waiters;
use super::write_counters::WriteCounters;
use crate::process::settle;
use crate::report::{GoalBound, Report};

pub(super) fn measure(settings: &Settings, report: &mut Report) -> Result<()> {
    let folder = settings.temporary()?;
    let session = Session::open(&folder.path().join("data"), options())?;
    fill_keys(&session, settings.keys)?;
    session.flush()?;
    let mut peer = FjallPeer::open(&folder.path().join("peer"))?;
    peer.fill(settings.keys)?;
    for _ in 0..settings.rounds {
        compare(settings, &session, &mut peer, 64, 16.0, report)?;
        compare(settings, &session, &mut peer, 1000, 200.0, report)?;
    }
    drop(peer);
    measure_written(settings, &session, folder.path(), report)
}

/// One round: Steadfast runs first, because the peer gets groups of the size that it
/// reached.
fn compare(
    settings: &Settings,
    session: &Session,
    peer: &mut FjallPeer,
    writers: u64,
    per_sync_goal: f64,
    report: &mut Report,
) -> Result<()> {
    settle()?;
    let mut ours = put_for(session, writers, settings.keys, settings.duration)?;
    settle()?;
    let group = ours.commits_per_sync().round().max(1.0) as u64;
    let mut theirs = peer.put_for(group, settings.keys, settings.duration)?;
    settle()?;
    let mut waits = waiters::put_for(peer, writers, settings.keys, settings.duration)?;

    let per_sync = ours.commits_per_sync();
    let rates = (ours.commits_per_s(), theirs.commits_per_s);
    let slowest = (
        ours.latencies.percentile_us(99.0),
        waits.latencies.percentile_us(99.0),
    );
    let goals = &mut report.goals;
    let name = format!("commits_per_sync_{writers}_writers");
    let bound = GoalBound::AtLeast(per_sync_goal);
    goals.record(name, "commits", bound, per_sync);
    let name = format!("commits_per_s_over_fjall_{writers}_writers");
    let bound = GoalBound::AtLeast(1.0);
    goals.record(name, "ratio", bound, rates.0 / rates.1);
    let name = format!("commit_p99_over_fjall_{writers}_writers");
    let bound = GoalBound::AtMost(0.5);
    goals.record(name, "ratio", bound, slowest.0 / slowest.1);

    let mut figure = |name: &str, value| {
        let name = format!("{name}_{writers}_writers");
        report.figures.record(name, value);
    };
    figure("commits_per_s", rates.0);
    figure("fjall_commits_per_s", rates.1);
    figure("commit_p50_us", ours.latencies.percentile_us(50.0));
    figure("commit_p99_us", slowest.0);
    figure("group_p50_us", ours.groups.percentile_us(50.0));
    figure("group_p99_us", ours.groups.percentile_us(99.0));
    figure("fjall_group_p50_us", theirs.latencies.percentile_us(50.0));
    figure("fjall_group_p99_us", theirs.latencies.percentile_us(99.0));
    figure("fjall_writers_commits_per_s", waits.commits_per_s);
    figure("fjall_commit_p50_us", waits.latencies.percentile_us(50.0));
    figure("fjall_commit_p99_us", slowest.1);
    figure("flushes", ours.flushes as f64);
    Ok(())
}

/// The bytes that 64 writers cause to be written, flushes to the tables included.
fn measure_written(
    settings: &Settings,
    session: &Session,
    folder: &Path,
    report: &mut Report,
) -> Result<()> {
    let written = WriteCounters::count(session, folder)?;
    let load = put_for(session, 64, settings.keys, settings.duration)?;
    let committed = load.commits() * ROW_BYTES as f64;
    written.record(session, folder, "64_writers", committed, report)
}

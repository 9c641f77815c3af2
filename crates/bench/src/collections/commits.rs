//! Transactions of one client and of many.
//!
//! Measured beside them: the bare sync, bare commits of the ledger underneath with the
//! same rows and as many clients, and the same transactions on volatile state.

use anyhow::Result;

use super::clients::{ClientWork, work_for};
use super::node::CollectionNode;
use super::settings::Settings;
use crate::disk::LogFile;
use crate::process::settle;
use crate::report::{GoalBound, Report};
use crate::storage::load::put_for;

pub(super) fn measure(settings: &Settings, report: &mut Report) -> Result<()> {
    let folder = settings.temporary()?;
    let mut file = LogFile::create(folder.path())?;
    let durable = CollectionNode::durable(&folder.path().join("data"))?;
    let volatile = CollectionNode::volatile()?;
    for node in [&durable, &volatile] {
        node.fill(settings.rows)?;
    }
    durable.session.flush()?;
    for _ in 0..settings.rounds {
        settle()?;
        measure_one(settings, &mut file, &durable, &volatile, report)?;
        for clients in [64, 1000] {
            measure_many(settings, &durable, &volatile, clients, report)?;
        }
    }
    Ok(())
}

fn measure_one(
    settings: &Settings,
    file: &mut LogFile,
    durable: &CollectionNode,
    volatile: &CollectionNode,
    report: &mut Report,
) -> Result<()> {
    let mut syncs = file.sync_for(settings.duration)?;
    let limit = syncs.percentile_us(50.0);
    report.limits.record("fdatasync_p50_us", limit);
    let limit_p99 = syncs.percentile_us(99.0);
    report.limits.record("fdatasync_p99_us", limit_p99);

    let work = ClientWork::SetOneOf(settings.rows);
    let mut ours = work_for(durable, 1, work, settings.duration)?.latencies;
    let mut ledger = put_for(&durable.session, 1, settings.rows, settings.duration)?.latencies;
    let mut lost = work_for(volatile, 1, work, settings.duration)?.latencies;
    let p50 = ours.percentile_us(50.0);
    let bound = GoalBound::AtMost(2.5);
    let name = "commit_p50_over_fdatasync_p50";
    report.goals.record(name, "ratio", bound, p50 / limit);
    let figures = &mut report.figures;
    figures.record("commit_p50_us", p50);
    figures.record("commit_p99_us", ours.percentile_us(99.0));
    let bare = ledger.percentile_us(50.0);
    figures.record("ledger_commit_p50_us", bare);
    figures.record("commit_p50_over_ledger_commit_p50", p50 / bare);
    figures.record("volatile_commit_p50_us", lost.percentile_us(50.0));
    figures.record("volatile_commit_p99_us", lost.percentile_us(99.0));
    Ok(())
}

fn measure_many(
    settings: &Settings,
    durable: &CollectionNode,
    volatile: &CollectionNode,
    clients: u64,
    report: &mut Report,
) -> Result<()> {
    let work = ClientWork::SetOneOf(settings.rows);
    settle()?;
    let mut ours = work_for(durable, clients, work, settings.duration)?;
    settle()?;
    let ledger = put_for(&durable.session, clients, settings.rows, settings.duration)?;
    settle()?;
    let mut lost = work_for(volatile, clients, work, settings.duration)?;
    let mut figure = |name: &str, value| {
        let name = format!("{name}_{clients}_clients");
        report.figures.record(name, value);
    };
    let (rate, bare) = (ours.per_second(), ledger.commits_per_s());
    figure("transactions_per_s", rate);
    figure("commits_per_sync", ours.per_sync());
    figure("commit_p50_us", ours.latencies.percentile_us(50.0));
    figure("commit_p99_us", ours.latencies.percentile_us(99.0));
    figure("ledger_commits_per_s", bare);
    figure("transactions_over_ledger_commits", rate / bare);
    figure("volatile_transactions_per_s", lost.per_second());
    let lost_p99 = lost.latencies.percentile_us(99.0);
    figure("volatile_commit_p99_us", lost_p99);
    Ok(())
}

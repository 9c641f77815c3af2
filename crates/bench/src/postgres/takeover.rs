//! Takeover: how long until another node has all partitions.
//!
//! The first node has flushed its events; some rows are only in its log. It stops
//! without a hand-over and holds no lease, so the time covers acquiring, verifying and
//! loading partitions, not waiting for a lease.

use std::time::Duration;

use anyhow::Result;

use super::clients;
use super::node::PostgresNode;
use super::settings::Settings;
use crate::report::Report;
use crate::stopwatch::Stopwatch;

pub(super) async fn measure(
    settings: &Settings,
    node: PostgresNode,
    report: &mut Report,
) -> Result<()> {
    node.store.flush().await?;
    let short = settings.duration.min(Duration::from_millis(500));
    let load = clients::commit_for(&node, 100, short).await?;
    report
        .figures
        .record("takeover_unflushed_commits", load.latencies.len() as f64);
    node.store.close().await;
    drop(node.ledgers);
    drop(node.engine);
    let run = Stopwatch::start();
    let next = PostgresNode::start(settings, 2).await?;
    report
        .figures
        .record("takeover_of_16_partitions_s", run.seconds());
    clients::commit_for(&next, 16, Duration::ZERO).await?;
    report
        .figures
        .record("takeover_until_first_commits_s", run.seconds());
    next.store.close().await;
    Ok(())
}

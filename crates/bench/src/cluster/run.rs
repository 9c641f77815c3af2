//! One run of all measurements of the area.

use std::path::Path;

use anyhow::{Context, Result};
use tokio::runtime::Runtime;

use super::node::BenchClusterNode;
use super::settings::{NODES, Settings};
use super::{commits, fanout, hop, regions, volatile};
use crate::machine::Machine;
use crate::postgres::bare;
use crate::report::Report;

/// Measures everything.
pub fn run(settings: &Settings) -> Result<Report> {
    let mut report = Report::new("cluster", Machine::look(Path::new(".")));
    let runtime = Runtime::new()?;
    runtime.block_on(async {
        let database = &settings.database;
        bare::clean(database).await.context("drop old schemas")?;
        measure(settings, &mut report).await?;
        bare::clean(database).await.context("drop the schemas")
    })?;
    report.figures.record("nodes", NODES as f64);
    report
        .figures
        .record("rounds", f64::from(settings.rounds()));
    Ok(report)
}

async fn measure(settings: &Settings, report: &mut Report) -> Result<()> {
    let nodes = BenchClusterNode::start_all(settings)
        .await
        .context("start nodes")?;
    for _ in 0..settings.rounds() {
        commits::measure(settings, &nodes, report)
            .await
            .context("commits")?;
        hop::measure(settings, &nodes, report)
            .await
            .context("hop")?;
        fanout::measure(settings, &nodes, report)
            .await
            .context("fan-out")?;
        volatile::measure(settings, &nodes, report)
            .await
            .context("volatile")?;
        regions::measure(settings, report)
            .await
            .context("regions")?;
    }
    for node in nodes {
        node.end().await;
    }
    Ok(())
}

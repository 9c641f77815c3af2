//! One run of all measurements of the area.

use std::path::Path;

use anyhow::{Context, Result};
use tokio::runtime::Runtime;

use super::node::PostgresNode;
use super::settings::Settings;
use super::{bare, clients, events, takeover};
use crate::machine::Machine;
use crate::report::{GoalBound, Report};

/// Measures everything.
pub fn run(settings: &Settings) -> Result<Report> {
    let mut report = Report::new("postgres", Machine::look(Path::new(".")));
    let runtime = Runtime::new()?;
    runtime.block_on(async {
        bare::clean(settings).await.context("drop old schemas")?;
        measure(settings, &mut report).await?;
        bare::clean(settings).await.context("drop the schemas")
    })?;
    report.figures.record("rounds", f64::from(settings.rounds));
    Ok(report)
}

async fn measure(settings: &Settings, report: &mut Report) -> Result<()> {
    let node = PostgresNode::start(settings, 1).await?;
    for _ in 0..settings.rounds {
        for clients in [1, 100, 1000] {
            compare(settings, &node, clients, report).await?;
        }
        events::measure(settings, &node, report)
            .await
            .context("events")?;
    }
    takeover::measure(settings, node, report)
        .await
        .context("takeover")
}

/// Steadfast runs first: the bare statement gets groups of the size that it reached.
async fn compare(
    settings: &Settings,
    node: &PostgresNode,
    clients: u64,
    report: &mut Report,
) -> Result<()> {
    let before = bare::log_bytes(settings).await?;
    let mut load = clients::commit_for(node, clients, settings.duration).await?;
    let log_bytes = bare::log_bytes(settings).await? - before;
    let bare = bare::commit_for(settings, load.per_statement()).await?;
    let rate = load.per_second();
    if clients == 1000 {
        let goals = &mut report.goals;
        let bound = GoalBound::AtLeast(50_000.0);
        goals.record("commits_per_s_1000_clients", "1/s", bound, rate);
        let bound = GoalBound::AtLeast(0.6);
        let name = "commits_per_s_over_bare_statement_1000_clients";
        goals.record(name, "ratio", bound, rate / bare);
    }
    let name = format!("bare_statement_commits_per_s_{clients}_clients");
    report.limits.record(name, bare);
    let mut figure = |name: &str, value| {
        let name = format!("{name}_{clients}_clients");
        report.figures.record(name, value);
    };
    figure("commits_per_s", rate);
    figure("commits_per_statement", load.per_statement());
    let per_commit = log_bytes / load.latencies.len() as f64;
    figure("log_bytes_per_commit", per_commit);
    figure("log_mb_per_s", per_commit * rate / 1e6);
    figure("commit_p50_us", load.latencies.percentile_us(50.0));
    figure("commit_p99_us", load.latencies.percentile_us(99.0));
    Ok(())
}

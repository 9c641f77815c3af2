//! Commits over three nodes, through any node and at owners.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use steadfast_core::id::Partition;
use steadfast_partition::{Error, Handle};
use steadfast_storage::ErrorKind;

use super::load::{RowCommand, RowService, instance};
use super::node::BenchClusterNode;
use super::settings::{NODES, Settings};
use crate::postgres::bare;
use crate::report::Report;
use crate::samples::Samples;
use crate::stopwatch::Stopwatch;
use crate::writers::{VALUE_BYTES, side_by_side};

/// Instances that are written.
const INSTANCES: u64 = 200_000;

/// Which node a client calls.
#[derive(Clone, Copy)]
enum CallRoute {
    /// Any node: most calls take one hop.
    Any,
    /// The node that owns the partition.
    Owner,
}

pub(super) async fn measure(
    settings: &Settings,
    nodes: &[BenchClusterNode],
    report: &mut Report,
) -> Result<()> {
    for clients in [3, 300, 1_500] {
        let before = statements(nodes);
        let mut any = commit_for(nodes, clients, settings.duration(), CallRoute::Any).await?;
        let group = any.0.len() as f64 / (statements(nodes) - before).max(1) as f64;
        let mut owner = commit_for(nodes, clients, settings.duration(), CallRoute::Owner).await?;
        let bare = bare::commit_by(&settings.database, group, NODES as i32).await?;
        let name = format!("bare_statement_3_connections_commits_per_s_{clients}_clients");
        report.limits.record(name, bare);
        let mut figure = |name: &str, value| {
            let name = format!("{name}_{clients}_clients");
            report.figures.record(name, value);
        };
        figure("commits_per_s_any_node", rate(&any));
        figure("commits_per_s_any_node_over_bare", rate(&any) / bare);
        figure("commits_per_statement", group);
        figure("commit_any_node_p50_us", any.0.percentile_us(50.0));
        figure("commit_any_node_p99_us", any.0.percentile_us(99.0));
        figure("commits_per_s_at_owner", rate(&owner));
        figure("commits_per_s_at_owner_over_bare", rate(&owner) / bare);
        figure("commit_at_owner_p50_us", owner.0.percentile_us(50.0));
        figure("commit_at_owner_p99_us", owner.0.percentile_us(99.0));
    }
    Ok(())
}

fn rate((latencies, seconds): &(Samples, f64)) -> f64 {
    latencies.len() as f64 / seconds
}

/// Commit statements of all nodes so far.
fn statements(nodes: &[BenchClusterNode]) -> u64 {
    let counts = nodes.iter().flat_map(|node| node.engine.statements());
    counts.sum()
}

/// Runs committing clients, each on its own task; returns the latency of each commit
/// and the seconds of all.
async fn commit_for(
    nodes: &[BenchClusterNode],
    clients: u64,
    duration: Duration,
    way: CallRoute,
) -> Result<(Samples, f64)> {
    let start = |client: u64, run| {
        let node = &nodes[client as usize % nodes.len()];
        let places = match way {
            CallRoute::Any => Vec::new(),
            CallRoute::Owner => node.serving(),
        };
        commit(node.handle(), places, client, run, duration)
    };
    side_by_side(clients, start).await
}

async fn commit(
    handle: Handle<RowService>,
    places: Vec<Partition>,
    client: u64,
    run: Arc<Stopwatch>,
    duration: Duration,
) -> Result<Samples> {
    let mut random = fastrand::Rng::with_seed(client);
    let mut latencies = Samples::default();
    while run.elapsed() < duration || latencies.len() == 0 {
        let mut value = [0; VALUE_BYTES];
        random.fill(&mut value);
        let to = instance(random.u64(..INSTANCES));
        let ask = RowCommand::Put(Bytes::copy_from_slice(&value));
        let waited = Stopwatch::start();
        let done = match random.choice(&places) {
            Some(place) => handle.call_in(*place, to, ask).await,
            None => handle.call(to, ask).await,
        };
        match done {
            Ok(_) => latencies.push(waited.elapsed()),
            Err(error) if is_throttled(&error) => {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(latencies)
}

/// Whether the store throttles its writers.
fn is_throttled(error: &Error) -> bool {
    let kind = error.storage().map(steadfast_storage::Error::kind);
    matches!(kind, Some(ErrorKind::Throttled { .. }))
}

//! Volatile commits: on one node, and replicated to three.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use steadfast_core::id::{Owner, Partition};
use steadfast_partition::volatile::SPACE;
use steadfast_storage::memory::MemoryEngine;
use steadfast_storage::{Ledger, Options, Store};

use super::node::BenchClusterNode;
use super::settings::{KEYS, NODES, PARTITIONS, Settings};
use crate::report::Report;
use crate::writers::{commit_for, rate};

/// The time-out until all nodes hold replicas.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) async fn measure(
    settings: &Settings,
    nodes: &[BenchClusterNode],
    report: &mut Report,
) -> Result<()> {
    let mut copied = Vec::new();
    for node in nodes {
        copied.extend(held(node).await?);
    }
    let store = Store::start(Arc::new(MemoryEngine::new()), Options::new(alone()));
    let mut single = Vec::new();
    for index in 0..PARTITIONS {
        single.push(store.acquire(Partition::new(SPACE, index)).await?);
    }
    for clients in [3, 300] {
        let mut alone = commit_for(&single, KEYS, clients, settings.duration()).await?;
        let mut mirrored = commit_for(&copied, KEYS, clients, settings.duration()).await?;
        let mut figure = |name: &str, value| {
            let name = format!("{name}_{clients}_clients");
            report.figures.record(name, value);
        };
        let (without, with) = (rate(&alone), rate(&mirrored));
        figure("volatile_commits_per_s_no_mirror", without);
        figure("volatile_commits_per_s_mirror", with);
        figure("volatile_mirror_over_no_mirror", with / without);
        figure(
            "volatile_commit_no_mirror_p50_us",
            alone.0.percentile_us(50.0),
        );
        figure(
            "volatile_commit_mirror_p50_us",
            mirrored.0.percentile_us(50.0),
        );
        figure(
            "volatile_commit_mirror_p99_us",
            mirrored.0.percentile_us(99.0),
        );
    }
    store.close().await;
    Ok(())
}

fn alone() -> Owner {
    Owner {
        node: 1,
        incarnation: 1,
    }
}

/// The volatile partitions of a node, once all nodes hold replicas of them.
async fn held(node: &BenchClusterNode) -> Result<Vec<Ledger>> {
    let mut ledgers = Vec::new();
    for partition in node.serving() {
        ledgers.push(node.volatile.ledger(partition.index()).await?);
    }
    let all = async {
        while node.serving().iter().any(|partition| {
            let charter = node.volatile.replica_set(partition.index());
            charter.is_none_or(|charter| charter.holders.len() < NODES)
        }) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let held = tokio::time::timeout(PATIENCE, all).await;
    held.context("not all nodes hold copies")?;
    Ok(ledgers)
}

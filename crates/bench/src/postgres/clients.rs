//! Clients that commit one row after the other.

use std::time::Duration;

use anyhow::Result;

use super::node::PostgresNode;
use crate::samples::Samples;
use crate::writers;

/// Keys that are written, over all partitions.
const KEYS: u64 = 200_000;

/// The result of some clients.
pub(super) struct PostgresLoad {
    pub(super) latencies: Samples,
    seconds: f64,
    statements: u64,
}

impl PostgresLoad {
    pub(super) fn per_second(&self) -> f64 {
        self.latencies.len() as f64 / self.seconds
    }

    pub(super) fn per_statement(&self) -> f64 {
        self.latencies.len() as f64 / self.statements.max(1) as f64
    }
}

/// Runs committing clients, each on its own task.
pub(super) async fn commit_for(
    node: &PostgresNode,
    clients: u64,
    duration: Duration,
) -> Result<PostgresLoad> {
    let before = node.engine.statements();
    let (latencies, seconds) = writers::commit_for(&node.ledgers, KEYS, clients, duration).await?;
    Ok(PostgresLoad {
        latencies,
        seconds,
        statements: node.engine.statements() - before,
    })
}

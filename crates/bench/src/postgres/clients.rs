//! Clients that commit one row after the other.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use steadfast_core::id::Table;
use steadfast_storage::{Kind, Ledger, Writes};

use super::node::Node;
use super::settings::ROW_BYTES;
use crate::samples::Samples;
use crate::stopwatch::Stopwatch;

/// Keys that are written, over all partitions.
const KEYS: u64 = 200_000;

/// What some clients achieved.
pub(super) struct Load {
    pub(super) latencies: Samples,
    seconds: f64,
    statements: u64,
}

impl Load {
    pub(super) fn per_second(&self) -> f64 {
        self.latencies.len() as f64 / self.seconds
    }

    pub(super) fn per_statement(&self) -> f64 {
        self.latencies.len() as f64 / self.statements.max(1) as f64
    }
}

/// Lets clients commit, each on its own task.
pub(super) async fn commit_for(node: &Node, clients: u64, duration: Duration) -> Result<Load> {
    let before = node.engine.statements();
    let run = Arc::new(Stopwatch::start());
    let start = |client| {
        let (ledgers, run) = (node.ledgers.clone(), Arc::clone(&run));
        tokio::spawn(commit(ledgers, client, run, duration))
    };
    let tasks: Vec<_> = (0..clients).map(start).collect();
    let mut latencies = Samples::default();
    for task in tasks {
        latencies.extend(task.await??);
    }
    Ok(Load {
        latencies,
        seconds: run.seconds(),
        statements: node.engine.statements() - before,
    })
}

async fn commit(
    ledgers: Vec<Ledger>,
    client: u64,
    run: Arc<Stopwatch>,
    duration: Duration,
) -> Result<Samples> {
    let mut random = fastrand::Rng::with_seed(client);
    let mut latencies = Samples::default();
    while run.elapsed() < duration || latencies.len() == 0 {
        let key = random.u64(..KEYS);
        let mut value = [0; ROW_BYTES - 8];
        random.fill(&mut value);
        let mut writes = Writes::new();
        writes.put(Table(1), &key.to_be_bytes(), &value);
        let waited = Stopwatch::start();
        let ledger = &ledgers[(key % ledgers.len() as u64) as usize];
        match ledger.commit(writes).await {
            Ok(_) => latencies.push(waited.elapsed()),
            Err(error) if matches!(error.kind(), Kind::Throttled { .. }) => {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(latencies)
}

//! Clients that commit one transaction after the other.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use super::node::{BenchPartition, CollectionNode, RowValue, home_of, patiently};
use crate::samples::Samples;
use crate::stopwatch::Stopwatch;

/// The result of some clients.
pub(super) struct CollectionLoad {
    /// From begin to commit of each transaction, retries included.
    pub(super) latencies: Samples,
    seconds: f64,
    /// Groups that were appended in that time, each with one sync.
    groups: usize,
}

impl CollectionLoad {
    pub(super) fn per_second(&self) -> f64 {
        self.latencies.len() as f64 / self.seconds
    }

    pub(super) fn per_sync(&self) -> f64 {
        self.latencies.len() as f64 / self.groups.max(1) as f64
    }
}

/// The operation that a client repeats.
#[derive(Clone, Copy)]
pub(super) enum ClientWork {
    /// Sets a random row of this many.
    SetOneOf(u64),
    /// Reads this row and writes it changed.
    Change(u64),
}

/// Runs clients, each on its own task.
pub(super) fn work_for(
    node: &CollectionNode,
    clients: u64,
    work: ClientWork,
    duration: Duration,
) -> Result<CollectionLoad> {
    let (runtime, engine) = (&node.session.runtime, &node.session.engine);
    engine.take_appends();
    let run = Arc::new(Stopwatch::start());
    let start = |client| {
        let (homes, run) = (node.homes.clone(), Arc::clone(&run));
        runtime.spawn(repeat(homes, client, work, run, duration))
    };
    let tasks: Vec<_> = (0..clients).map(start).collect();
    let latencies = runtime.block_on(async {
        let mut latencies = Samples::default();
        for task in tasks {
            latencies.extend(task.await??);
        }
        anyhow::Ok(latencies)
    })?;
    Ok(CollectionLoad {
        latencies,
        seconds: run.seconds(),
        groups: engine.take_appends().len(),
    })
}

async fn repeat(
    homes: Vec<BenchPartition>,
    client: u64,
    work: ClientWork,
    run: Arc<Stopwatch>,
    duration: Duration,
) -> Result<Samples> {
    let mut random = fastrand::Rng::with_seed(client);
    let mut latencies = Samples::default();
    while run.elapsed() < duration || latencies.len() == 0 {
        let key = match work {
            ClientWork::SetOneOf(rows) => random.u64(..rows),
            ClientWork::Change(key) => key,
        };
        let home = home_of(&homes, key);
        let transaction = Stopwatch::start();
        let mut is_done = false;
        while !is_done {
            let done = match work {
                ClientWork::SetOneOf(_) => home.set(&[key], latencies.len()).await,
                ClientWork::Change(_) => home.change(key).await,
            };
            is_done = patiently(done).await?;
        }
        latencies.push(transaction.elapsed());
    }
    Ok(latencies)
}

impl BenchPartition {
    /// One transaction that increments the first byte of a row.
    async fn change(&self, key: u64) -> steadfast_collections::Result<()> {
        let mut tx = self.replica.begin();
        let count = |old: &RowValue| {
            let mut new = *old;
            new[0] = new[0].wrapping_add(1);
            new
        };
        self.rows.update(&mut tx, &key, count).await?;
        tx.commit().await.map(drop)
    }
}

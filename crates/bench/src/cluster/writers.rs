//! Writers on ledgers, below all services.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use steadfast_core::id::Table;
use steadfast_storage::{Kind, Ledger, Writes};

use crate::samples::Samples;
use crate::stopwatch::Stopwatch;

const ROWS: Table = Table(5);

/// Rows that are written, and what each takes beside its key.
const KEYS: u64 = 20_000;
const VALUE_BYTES: usize = 192;

/// Commits per second.
pub(super) fn rate((latencies, seconds): &(Samples, f64)) -> f64 {
    latencies.len() as f64 / seconds
}

/// Lets clients commit, each on its own task; answers what each commit took.
pub(super) async fn commit_for(
    ledgers: &[Ledger],
    clients: u64,
    duration: Duration,
) -> Result<(Samples, f64)> {
    let run = Arc::new(Stopwatch::start());
    let start = |client: u64| {
        let (ledgers, run) = (ledgers.to_vec(), Arc::clone(&run));
        tokio::spawn(commit(ledgers, client, run, duration))
    };
    let tasks: Vec<_> = (0..clients).map(start).collect();
    let mut latencies = Samples::default();
    for task in tasks {
        latencies.extend(task.await??);
    }
    Ok((latencies, run.seconds()))
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
        let mut value = [0; VALUE_BYTES];
        random.fill(&mut value);
        let mut writes = Writes::new();
        writes.put(ROWS, &random.u64(..KEYS).to_be_bytes(), &value);
        let ledger = &ledgers[random.usize(..ledgers.len())];
        let waited = Stopwatch::start();
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

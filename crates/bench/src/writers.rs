//! Clients that commit concurrently for some time.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use steadfast_core::id::TableId;
use steadfast_storage::{ErrorKind, Ledger, Writes};

use crate::samples::Samples;
use crate::stopwatch::Stopwatch;

const ROWS: TableId = TableId(5);

/// The size of a row without its key.
pub(crate) const VALUE_BYTES: usize = 192;

/// Commits per second.
pub(crate) fn rate((latencies, seconds): &(Samples, f64)) -> f64 {
    latencies.len() as f64 / seconds
}

/// Runs committing clients, each on its own task; returns the latency of each commit
/// and the seconds of all.
pub(crate) async fn side_by_side<F>(
    clients: u64,
    start: impl Fn(u64, Arc<Stopwatch>) -> F,
) -> Result<(Samples, f64)>
where
    F: Future<Output = Result<Samples>> + Send + 'static,
{
    let run = Arc::new(Stopwatch::start());
    let start = |client| tokio::spawn(start(client, Arc::clone(&run)));
    let tasks: Vec<_> = (0..clients).map(start).collect();
    let mut latencies = Samples::default();
    for task in tasks {
        latencies.extend(task.await??);
    }
    Ok((latencies, run.seconds()))
}

/// Runs clients that write rows of this many keys, spread over ledgers.
pub(crate) async fn commit_for(
    ledgers: &[Ledger],
    keys: u64,
    clients: u64,
    duration: Duration,
) -> Result<(Samples, f64)> {
    let start = |client, run| commit(ledgers.to_vec(), keys, client, run, duration);
    side_by_side(clients, start).await
}

async fn commit(
    ledgers: Vec<Ledger>,
    keys: u64,
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
        let key = random.u64(..keys);
        writes.put(ROWS, &key.to_be_bytes(), &value);
        let ledger = &ledgers[(key % ledgers.len() as u64) as usize];
        let waited = Stopwatch::start();
        match ledger.commit(writes).await {
            Ok(_) => latencies.push(waited.elapsed()),
            Err(error) if matches!(error.kind(), ErrorKind::Throttled { .. }) => {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(latencies)
}

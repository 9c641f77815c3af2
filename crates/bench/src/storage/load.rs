//! Writers that put rows of 100 bytes.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use steadfast_storage::{Error, ErrorKind, Ledger, StagedTransaction, Writes};

use super::session::{Session, TABLE, ledger_of};
use crate::samples::Samples;
use crate::stopwatch::Stopwatch;

/// The size of a row's value.
pub(crate) const VALUE_BYTES: usize = 100;

/// The size of a row: key and value.
pub(super) const ROW_BYTES: usize = 8 + VALUE_BYTES;

/// The result of some writers.
pub(crate) struct WriteLoad {
    /// From the call to the durable response, of each commit.
    pub(crate) latencies: Samples,
    pub(super) seconds: f64,
    /// The duration of each group in that time, each one sync of the log.
    pub(super) groups: Samples,
    /// Flushes of partitions in that time.
    pub(super) flushes: u64,
}

impl WriteLoad {
    pub(super) fn commits(&self) -> f64 {
        self.latencies.len() as f64
    }

    pub(crate) fn commits_per_s(&self) -> f64 {
        self.commits() / self.seconds
    }

    pub(super) fn commits_per_sync(&self) -> f64 {
        self.commits() / self.groups.len().max(1) as f64
    }
}

/// Runs writers that commit one put after the other, each on its own task.
pub(crate) fn put_for(
    session: &Session,
    writers: u64,
    keys: u64,
    duration: Duration,
) -> Result<WriteLoad> {
    let engine = &session.engine;
    let flushes = engine.flushes();
    engine.take_appends();
    let run = Arc::new(Stopwatch::start());
    let start = |writer| {
        let (ledgers, run) = (session.ledgers.clone(), Arc::clone(&run));
        let writing = write(ledgers, writer, keys, run, duration);
        session.runtime.spawn(writing)
    };
    let tasks: Vec<_> = (0..writers).map(start).collect();
    let latencies = session.runtime.block_on(async {
        let mut latencies = Samples::default();
        for task in tasks {
            latencies.extend(task.await??);
        }
        anyhow::Ok(latencies)
    })?;
    Ok(WriteLoad {
        latencies,
        seconds: run.seconds(),
        groups: engine.take_appends(),
        flushes: engine.flushes() - flushes,
    })
}

async fn write(
    ledgers: Vec<Ledger>,
    writer: u64,
    keys: u64,
    run: Arc<Stopwatch>,
    duration: Duration,
) -> Result<Samples> {
    let mut random = fastrand::Rng::with_seed(writer);
    let mut latencies = Samples::default();
    while run.elapsed() < duration || latencies.len() == 0 {
        let key = random.u64(..keys);
        let value = value_of(key, latencies.len());
        let writes = || {
            let mut writes = Writes::new();
            writes.put(TABLE, &key.to_be_bytes(), &value);
            writes
        };
        let commit = Stopwatch::start();
        commit_patiently(ledger_of(&ledgers, key), writes).await?;
        latencies.push(commit.elapsed());
    }
    Ok(latencies)
}

/// Commits, and waits while the store throttles its writers.
pub(super) async fn commit_patiently(
    ledger: &Ledger,
    writes: impl Fn() -> Writes,
) -> Result<StagedTransaction, Error> {
    loop {
        let done = ledger.commit(writes()).await;
        match done {
            Err(error) if matches!(error.kind(), ErrorKind::Throttled { .. }) => {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            done => return done,
        }
    }
}

/// A value that does not compress and is never the same.
pub(crate) fn value_of(key: u64, version: usize) -> [u8; VALUE_BYTES] {
    let mut value = [0; VALUE_BYTES];
    fastrand::Rng::with_seed(key ^ ((version as u64) << 32)).fill(&mut value);
    value
}

/// Puts every key once, several to a transaction, one task per partition.
pub(super) fn fill_keys(session: &Session, keys: u64) -> Result<()> {
    let partitions = session.ledgers.len() as u64;
    let start = |(index, ledger): (usize, &Ledger)| {
        let filling = fill_partition(ledger.clone(), index as u64, partitions, keys);
        session.runtime.spawn(filling)
    };
    let tasks: Vec<_> = session.ledgers.iter().enumerate().map(start).collect();
    session.runtime.block_on(async {
        for task in tasks {
            task.await??;
        }
        Ok(())
    })
}

async fn fill_partition(ledger: Ledger, index: u64, partitions: u64, keys: u64) -> Result<()> {
    const ROWS: u64 = 16;
    let mut next = index;
    while next < keys {
        let writes = || {
            let mut writes = Writes::new();
            let rows = (next..keys).step_by(partitions as usize);
            for key in rows.take(ROWS as usize) {
                writes.put(TABLE, &key.to_be_bytes(), &value_of(key, 0));
            }
            writes
        };
        commit_patiently(&ledger, writes).await?;
        next += partitions * ROWS;
    }
    Ok(())
}

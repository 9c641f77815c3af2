//! Event streams: the rates of appending and of reading.

use anyhow::Result;
use steadfast_core::id::{Sequence, StreamId};
use steadfast_storage::engine::ReadPosition;
use steadfast_storage::{ErrorKind, Ledger, Writes};

use super::node::PostgresNode;
use super::settings::Settings;
use crate::report::Report;
use crate::stopwatch::Stopwatch;

const BATCH: usize = 256 * 1024;

/// Partitions that are written at once.
const WRITERS: usize = 4;

const STREAM: StreamId = StreamId(1);

pub(super) async fn measure(
    settings: &Settings,
    node: &PostgresNode,
    report: &mut Report,
) -> Result<()> {
    let before = node.ledgers[0]
        .stream(STREAM)?
        .map_or(Sequence(0), |head| head.next);
    let run = Stopwatch::start();
    let each = settings.event_bytes / BATCH / WRITERS;
    let writers = node.ledgers[..WRITERS].iter().cloned();
    let tasks: Vec<_> = writers
        .map(|ledger| tokio::spawn(publish(ledger, each)))
        .collect();
    for task in tasks {
        task.await??;
    }
    let mb = (each * WRITERS * BATCH) as f64 / 1e6;
    report.figures.record("events_mb_per_s", mb / run.seconds());
    let run = Stopwatch::start();
    let bytes = read_back(&node.engine, &node.ledgers[0], before).await?;
    report
        .figures
        .record("catch_up_read_mb_per_s", bytes as f64 / 1e6 / run.seconds());
    Ok(())
}

async fn publish(ledger: Ledger, batches: usize) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut bytes = vec![0; BATCH];
    random.fill(&mut bytes);
    let bytes = bytes::Bytes::from(bytes);
    let mut done = 0;
    while done < batches {
        let mut writes = Writes::new();
        writes.publish(STREAM, 256, bytes.clone());
        match ledger.commit(writes).await {
            Ok(_) => done += 1,
            Err(error) if matches!(error.kind(), ErrorKind::Throttled { .. }) => {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Reads from the database, past the cached tail.
async fn read_back(
    engine: &steadfast_storage_postgres::PostgresEngine,
    ledger: &Ledger,
    mut next: Sequence,
) -> Result<usize> {
    use steadfast_storage::engine::Engine;
    let mut bytes = 0;
    loop {
        let from = ReadPosition::Sequence(next);
        let batches = engine
            .read_events(ledger.partition(), STREAM, from, 4 << 20)
            .await?;
        let Some(last) = batches.last() else {
            return Ok(bytes);
        };
        next = last.next();
        bytes += batches.iter().map(|batch| batch.bytes.len()).sum::<usize>();
    }
}

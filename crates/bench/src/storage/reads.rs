//! Reads of cached rows.

use anyhow::{Result, ensure};
use steadfast_storage::{MemoryLookup, Visibility};

use super::load::fill_keys;
use super::session::{Session, TABLE, options};
use super::settings::Settings;
use crate::report::Report;
use crate::stopwatch::Stopwatch;

/// The number of keys, few enough to stay in memory.
const KEYS: u64 = 100_000;

pub(super) fn measure(settings: &Settings, report: &mut Report) -> Result<()> {
    let folder = settings.temporary()?;
    let session = Session::open(&folder.path().join("data"), options())?;
    let keys = settings.keys.min(KEYS);
    fill_keys(&session, keys)?;
    for _ in 0..settings.rounds {
        let unflushed = peek_for(settings, &session, keys)?;
        let name = "unflushed_reads_per_s";
        report.figures.record(name, unflushed);
    }
    session.flush()?;
    load(&session, keys)?;
    for _ in 0..settings.rounds {
        let cached = peek_for(settings, &session, keys)?;
        let name = "cached_reads_per_s";
        report.figures.record(name, cached);
    }
    Ok(())
}

/// Reads every row once, so that the cache has it.
fn load(session: &Session, keys: u64) -> Result<()> {
    session.runtime.block_on(async {
        for key in 0..keys {
            let ledger = session.ledger_of(key);
            let row = ledger
                .get(TABLE, &key.to_be_bytes(), Visibility::Durable)
                .await?;
            ensure!(row.is_some(), "key {key} is missing");
        }
        Ok(())
    })
}

/// Reads per second on one thread.
fn peek_for(settings: &Settings, session: &Session, keys: u64) -> Result<f64> {
    const READS: u64 = 1000;
    let mut random = fastrand::Rng::with_seed(0);
    let run = Stopwatch::start();
    let mut reads = 0;
    while run.elapsed() < settings.duration / 3 {
        for _ in 0..READS {
            let key = random.u64(..keys);
            let ledger = session.ledger_of(key);
            let found = ledger.peek(TABLE, &key.to_be_bytes(), Visibility::Durable)?;
            ensure!(
                matches!(found, MemoryLookup::Found(Some(_))),
                "key {key} is missing"
            );
        }
        reads += READS;
    }
    Ok(reads as f64 / run.seconds())
}

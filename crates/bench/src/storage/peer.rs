//! The peer: fjall itself, committing groups.
//!
//! It gets its groups ready-made on one thread, each committed as one batch with
//! one `fdatasync`, so it pays for no concurrency at all.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::load::{VALUE_BYTES, value_of};
use crate::samples::Samples;
use crate::stopwatch::Stopwatch;

/// A database of the peer, with its defaults.
pub(super) struct FjallPeer {
    database: Database,
    rows: Keyspace,
    random: fastrand::Rng,
}

/// The result of the peer.
pub(super) struct PeerLoad {
    /// The latency of each group, or of each writer.
    pub(super) latencies: Samples,
    pub(super) commits_per_s: f64,
}

impl FjallPeer {
    pub(super) fn open(folder: &Path) -> Result<Self> {
        let database = Database::builder(folder).open()?;
        let rows = database.keyspace("rows", KeyspaceCreateOptions::default)?;
        Ok(Self {
            database,
            rows,
            random: fastrand::Rng::with_seed(0),
        })
    }

    /// Puts every key once and flushes everything to the tables.
    pub(super) fn fill(&self, keys: u64) -> Result<()> {
        const ROWS: u64 = 1024;
        for first in (0..keys).step_by(ROWS as usize) {
            let mut batch = self.database.batch();
            for key in first..keys.min(first + ROWS) {
                batch.insert(&self.rows, key.to_be_bytes(), value_of(key, 0));
            }
            batch.commit()?;
        }
        self.rows.rotate_memtable_and_wait()?;
        Ok(())
    }

    /// Commits one group with one sync.
    pub(super) fn commit(
        &self,
        rows: impl Iterator<Item = (u64, [u8; VALUE_BYTES])>,
    ) -> Result<()> {
        let mut batch = self.database.batch();
        for (key, value) in rows {
            batch.insert(&self.rows, key.to_be_bytes(), value);
        }
        let batch = batch.durability(Some(PersistMode::SyncData));
        Ok(batch.commit()?)
    }

    /// Commits group after group, each durable before the next.
    pub(super) fn put_for(&mut self, group: u64, keys: u64, time: Duration) -> Result<PeerLoad> {
        let mut latencies = Samples::default();
        let run = Stopwatch::start();
        while run.elapsed() < time || latencies.len() == 0 {
            let version = latencies.len();
            let random_row = |_| {
                let key = self.random.u64(..keys);
                (key, value_of(key, version))
            };
            let rows: Vec<_> = (0..group).map(random_row).collect();
            let commit = Stopwatch::start();
            self.commit(rows.into_iter())?;
            latencies.push(commit.elapsed());
        }
        let commits = latencies.len() as u64 * group;
        Ok(PeerLoad {
            commits_per_s: commits as f64 / run.seconds(),
            latencies,
        })
    }
}

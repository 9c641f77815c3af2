//! All partitions of a store, each with one dictionary.
//!
//! The store is durable in a folder or volatile in memory; everything else is equal, so
//! that both can be compared.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use steadfast_collections::{Dictionary, Options, Replica, RetryAdvice};
use steadfast_storage::memory::MemoryEngine;

use crate::counting::Counting;
use crate::storage::load::{VALUE_BYTES, value_of};
use crate::storage::session::{Session, options};

/// A row's value: as large as in the area `storage`.
pub(super) type RowValue = [u8; VALUE_BYTES];

/// The dictionary of a partition.
pub(super) type RowDictionary = Dictionary<u64, RowValue>;

/// One partition.
#[derive(Clone)]
pub(super) struct BenchPartition {
    pub(super) replica: Replica,
    pub(super) rows: RowDictionary,
}

/// An open store. Partitions are dropped before the session that holds their ledgers.
pub(super) struct CollectionNode {
    pub(super) homes: Vec<BenchPartition>,
    pub(super) session: Session,
}

impl CollectionNode {
    /// State that survives the process.
    pub(super) fn durable(folder: &Path) -> Result<Self> {
        Self::on(Session::open(folder, options())?, false)
    }

    /// State that is lost with the process.
    pub(super) fn volatile() -> Result<Self> {
        let engine = Counting::new(MemoryEngine::new());
        Self::on(Session::over(engine, options())?, true)
    }

    fn on(session: Session, is_volatile: bool) -> Result<Self> {
        let open = async {
            let mut homes = Vec::with_capacity(session.ledgers.len());
            for ledger in &session.ledgers {
                let options = Options {
                    is_volatile,
                    ..Options::default()
                };
                let replica = Replica::primary(ledger.clone(), options).await?;
                let rows = replica.state().get_or_add("rows").await?;
                homes.push(BenchPartition { replica, rows });
            }
            anyhow::Ok(homes)
        };
        let homes = session.runtime.block_on(open)?;
        Ok(Self { homes, session })
    }

    /// Sets every row once, one task per partition.
    pub(super) fn fill(&self, rows: u64) -> Result<()> {
        let homes = self.homes.len();
        let fill = |(index, home): (usize, &BenchPartition)| {
            let keys = (index as u64..rows).step_by(homes);
            self.session
                .runtime
                .spawn(home.clone().fill(keys.collect()))
        };
        let tasks: Vec<_> = self.homes.iter().enumerate().map(fill).collect();
        self.session.runtime.block_on(async {
            for task in tasks {
                task.await??;
            }
            Ok(())
        })
    }
}

/// The partition that a row belongs to.
pub(super) fn home_of(homes: &[BenchPartition], key: u64) -> &BenchPartition {
    &homes[(key % homes.len() as u64) as usize]
}

impl BenchPartition {
    /// Sets rows, several to a transaction.
    pub(super) async fn fill(self, keys: Vec<u64>) -> Result<()> {
        const ROWS: usize = 64;
        for keys in keys.chunks(ROWS) {
            while !patiently(self.set(keys, 0).await).await? {}
        }
        Ok(())
    }

    /// One transaction that sets rows.
    pub(super) async fn set(
        &self,
        keys: &[u64],
        version: usize,
    ) -> steadfast_collections::Result<()> {
        let mut tx = self.replica.begin();
        for key in keys {
            let value = value_of(*key, version);
            self.rows.set(&mut tx, *key, value).await?;
        }
        tx.commit().await.map(drop)
    }
}

/// Whether the transaction has succeeded; pauses after a transient error.
pub(super) async fn patiently(done: steadfast_collections::Result<()>) -> Result<bool> {
    match done {
        Ok(()) => Ok(true),
        Err(error) if error.retry() == RetryAdvice::No => Err(error.into()),
        Err(_) => {
            tokio::time::sleep(Duration::from_millis(1)).await;
            Ok(false)
        }
    }
}

//! An engine that fails when a test says so.
//!
//! It wraps the engine that holds the state, and is made anew for each start of the node:
//! after a crash the former one refuses everything, because its process has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::id::{EntryNumber, Epoch, Owner, Partition, StreamId, TableId};
use steadfast_storage::engine::{
    AcquireOutcome, CasOutcome, Engine, Entry, EventBatch, Flush, Outcome, ReadPosition, Record,
    Scan, TableRow,
};
use steadfast_storage::{Error, ErrorKind, Result};
use tokio::sync::watch;

use super::fault::{Fault, Faults};

/// How long a commit on a slow disk takes.
const SLOW: Duration = Duration::from_millis(500);

/// The owner that takes a partition away.
const RIVAL: Owner = Owner {
    node: u32::MAX,
    incarnation: 1,
};

pub(super) struct FaultyEngine {
    inner: Arc<dyn Engine>,
    faults: Faults,
    has_crashed: AtomicBool,
}

impl FaultyEngine {
    pub(super) fn new(inner: Arc<dyn Engine>, faults: Faults) -> Self {
        Self {
            inner,
            faults,
            has_crashed: AtomicBool::new(false),
        }
    }

    /// The engine, unless the process has ended.
    fn alive(&self) -> Result<&dyn Engine> {
        if self.has_crashed.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Closed));
        }
        Ok(&*self.inner)
    }

    /// From now on the engine does nothing more.
    pub(super) fn kill(&self) {
        self.has_crashed.store(true, Ordering::SeqCst);
    }

    /// Ends the process: its callers do not learn what has become of the group.
    fn crash(&self, group: &[Entry]) -> Vec<Outcome> {
        self.kill();
        self.faults.crash();
        unknown(group)
    }

    /// Another owner takes the partitions of a group and releases them.
    async fn intrude(&self, group: &[Entry]) -> Result<()> {
        for entry in group {
            let taken = self.inner.acquire(entry.partition, RIVAL, entry.epoch);
            if let AcquireOutcome::Granted(tenure) = taken.await? {
                self.inner.release(entry.partition, tenure.epoch).await?;
            }
        }
        Ok(())
    }
}

fn unknown(group: &[Entry]) -> Vec<Outcome> {
    group.iter().map(|_| Outcome::Unknown).collect()
}

#[async_trait]
impl Engine for FaultyEngine {
    async fn acquire(
        &self,
        partition: Partition,
        owner: Owner,
        expect: Epoch,
    ) -> Result<AcquireOutcome> {
        self.alive()?.acquire(partition, owner, expect).await
    }

    async fn release(&self, partition: Partition, epoch: Epoch) -> Result<()> {
        self.alive()?.release(partition, epoch).await
    }

    async fn renew(&self, owner: Owner, ttl: Duration) -> Result<()> {
        self.alive()?.renew(owner, ttl).await
    }

    async fn append(&self, group: &[Entry]) -> Result<Vec<Outcome>> {
        let inner = self.alive()?;
        match self.faults.strike() {
            None => inner.append(group).await,
            Some(Fault::DiskFull) => {
                let path = "the disk of the test".into();
                Err(Error::new(ErrorKind::DiskFull { path }))
            }
            Some(Fault::SlowDisk) => {
                tokio::time::sleep(SLOW).await;
                inner.append(group).await
            }
            Some(Fault::AnswerLost) => {
                inner.append(group).await?;
                Ok(unknown(group))
            }
            Some(Fault::CommitLost) => Ok(unknown(group)),
            Some(Fault::OwnerLost) => {
                self.intrude(group).await?;
                inner.append(group).await
            }
            Some(Fault::CrashBeforeCommit) => Ok(self.crash(group)),
            Some(Fault::CrashAfterCommit) => {
                inner.append(group).await?;
                Ok(self.crash(group))
            }
        }
    }

    async fn replay(
        &self,
        partition: Partition,
        from: EntryNumber,
        max_bytes: usize,
    ) -> Result<Vec<Entry>> {
        let inner = self.alive()?;
        inner.replay(partition, from, max_bytes).await
    }

    async fn flush(&self, flush: Flush) -> Result<()> {
        self.alive()?.flush(flush).await
    }

    async fn get(&self, partition: Partition, table: TableId, key: &[u8]) -> Result<Option<Bytes>> {
        self.alive()?.get(partition, table, key).await
    }

    async fn scan(
        &self,
        partition: Partition,
        table: TableId,
        range: Scan,
    ) -> Result<Vec<TableRow>> {
        self.alive()?.scan(partition, table, range).await
    }

    async fn scan_keys(
        &self,
        partition: Partition,
        table: TableId,
        range: Scan,
    ) -> Result<Vec<Bytes>> {
        self.alive()?.scan_keys(partition, table, range).await
    }

    async fn read_events(
        &self,
        partition: Partition,
        stream: StreamId,
        from: ReadPosition,
        max_bytes: usize,
    ) -> Result<Vec<EventBatch>> {
        let inner = self.alive()?;
        inner.read_events(partition, stream, from, max_bytes).await
    }

    async fn cas(&self, key: &str, expect: u64, value: Bytes) -> Result<CasOutcome> {
        self.alive()?.cas(key, expect, value).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Record>> {
        self.alive()?.list(prefix).await
    }

    fn shard(&self, partition: Partition) -> u16 {
        self.inner.shard(partition)
    }

    fn watch(&self) -> watch::Receiver<u64> {
        self.inner.watch()
    }
}

//! A node's slow way to the engine, cut when it dies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use fastrand::Rng;
use parking_lot::Mutex;
use steadfast_core::id::{EntryNumber, Epoch, Owner, Partition, StreamId, TableId};
use steadfast_storage::engine::{
    AcquireOutcome, CasOutcome, Entry, EventBatch, Flush, Outcome, ReadPosition, Record, Scan,
    TableRow,
};
use steadfast_storage::{Engine, Result};
use tokio::sync::{Notify, watch};

use crate::oracle::{Life, Oracle};

/// Stands between one life of a node and the engine. After a number of steps, each
/// a call or its answer, the node is dead: nothing of it happens any more.
pub(crate) struct Wire {
    inner: Arc<dyn Engine>,
    rng: Mutex<Rng>,
    steps_left: AtomicU64,
    is_cut: AtomicBool,
    pub(crate) died: Arc<Notify>,
}

impl Wire {
    pub(crate) fn new(inner: Arc<dyn Engine>, seed: u64, steps: u64) -> Self {
        Self {
            inner,
            rng: Mutex::new(Rng::with_seed(seed)),
            steps_left: AtomicU64::new(steps),
            is_cut: AtomicBool::new(false),
            died: Arc::new(Notify::new()),
        }
    }

    /// The node will not die of itself any more.
    pub(crate) fn spare(&self) {
        self.steps_left.store(u64::MAX, Ordering::Relaxed);
    }

    /// One step: takes a while, or never ends.
    async fn step(&self) {
        let wait_us = {
            let mut rng = self.rng.lock();
            match rng.u8(0..10) {
                0 => rng.u64(0..20_000),
                _ => rng.u64(0..300),
            }
        };
        tokio::time::sleep(Duration::from_micros(wait_us)).await;
        let left = self.steps_left.load(Ordering::Relaxed);
        self.steps_left
            .store(left.saturating_sub(1), Ordering::Relaxed);
        if left == 0 || self.is_cut.load(Ordering::Relaxed) {
            self.is_cut.store(true, Ordering::Relaxed);
            self.died.notify_one();
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait]
impl Engine for Wire {
    async fn acquire(
        &self,
        partition: Partition,
        owner: Owner,
        expect: Epoch,
    ) -> Result<AcquireOutcome> {
        self.step().await;
        let answer = self.inner.acquire(partition, owner, expect).await;
        self.step().await;
        answer
    }

    async fn release(&self, partition: Partition, epoch: Epoch) -> Result<()> {
        self.step().await;
        self.inner.release(partition, epoch).await
    }

    async fn renew(&self, owner: Owner, ttl: Duration) -> Result<()> {
        self.step().await;
        self.inner.renew(owner, ttl).await
    }

    async fn append(&self, group: &[Entry]) -> Result<Vec<Outcome>> {
        self.step().await;
        let answer = self.inner.append(group).await;
        self.step().await;
        answer
    }

    async fn replay(
        &self,
        partition: Partition,
        from: EntryNumber,
        max: usize,
    ) -> Result<Vec<Entry>> {
        self.step().await;
        self.inner.replay(partition, from, max).await
    }

    async fn flush(&self, flush: Flush) -> Result<()> {
        self.step().await;
        let answer = self.inner.flush(flush).await;
        self.step().await;
        answer
    }

    async fn get(&self, partition: Partition, table: TableId, key: &[u8]) -> Result<Option<Bytes>> {
        self.step().await;
        self.inner.get(partition, table, key).await
    }

    async fn scan(
        &self,
        partition: Partition,
        table: TableId,
        range: Scan,
    ) -> Result<Vec<TableRow>> {
        self.step().await;
        self.inner.scan(partition, table, range).await
    }

    async fn read_events(
        &self,
        partition: Partition,
        stream: StreamId,
        from: ReadPosition,
        max_bytes: usize,
    ) -> Result<Vec<EventBatch>> {
        self.step().await;
        self.inner
            .read_events(partition, stream, from, max_bytes)
            .await
    }

    async fn cas(&self, key: &str, expect: u64, value: Bytes) -> Result<CasOutcome> {
        self.inner.cas(key, expect, value).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Record>> {
        self.inner.list(prefix).await
    }

    fn watch(&self) -> watch::Receiver<u64> {
        self.inner.watch()
    }
}

/// Right in front of the engine: tells the oracle what is committed, and by whom.
pub(crate) struct Watched {
    inner: Arc<dyn Engine>,
    oracle: Arc<Oracle>,
    life: Life,
}

impl Watched {
    pub(crate) fn new(inner: Arc<dyn Engine>, oracle: Arc<Oracle>, life: Life) -> Self {
        Self {
            inner,
            oracle,
            life,
        }
    }
}

#[async_trait]
impl Engine for Watched {
    async fn acquire(
        &self,
        partition: Partition,
        owner: Owner,
        expect: Epoch,
    ) -> Result<AcquireOutcome> {
        let answer = self.inner.acquire(partition, owner, expect).await?;
        if let AcquireOutcome::Granted(tenure) = &answer {
            self.oracle.granted(partition, tenure.epoch);
        }
        Ok(answer)
    }

    async fn release(&self, partition: Partition, epoch: Epoch) -> Result<()> {
        self.inner.release(partition, epoch).await
    }

    async fn renew(&self, owner: Owner, ttl: Duration) -> Result<()> {
        self.inner.renew(owner, ttl).await
    }

    async fn append(&self, group: &[Entry]) -> Result<Vec<Outcome>> {
        let outcomes = self.inner.append(group).await?;
        for (entry, outcome) in group.iter().zip(&outcomes) {
            if *outcome == Outcome::Committed {
                self.oracle.committed(self.life, entry);
            }
        }
        Ok(outcomes)
    }

    async fn replay(
        &self,
        partition: Partition,
        from: EntryNumber,
        max: usize,
    ) -> Result<Vec<Entry>> {
        self.inner.replay(partition, from, max).await
    }

    async fn flush(&self, flush: Flush) -> Result<()> {
        self.inner.flush(flush).await
    }

    async fn get(&self, partition: Partition, table: TableId, key: &[u8]) -> Result<Option<Bytes>> {
        self.inner.get(partition, table, key).await
    }

    async fn scan(
        &self,
        partition: Partition,
        table: TableId,
        range: Scan,
    ) -> Result<Vec<TableRow>> {
        self.inner.scan(partition, table, range).await
    }

    async fn read_events(
        &self,
        partition: Partition,
        stream: StreamId,
        from: ReadPosition,
        max_bytes: usize,
    ) -> Result<Vec<EventBatch>> {
        self.inner
            .read_events(partition, stream, from, max_bytes)
            .await
    }

    async fn cas(&self, key: &str, expect: u64, value: Bytes) -> Result<CasOutcome> {
        self.inner.cas(key, expect, value).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Record>> {
        self.inner.list(prefix).await
    }

    fn watch(&self) -> watch::Receiver<u64> {
        self.inner.watch()
    }
}

//! An engine that counts appends and flushes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::id::{EntryNumber, Epoch, Owner, Partition, StreamId, TableId};
use steadfast_storage::Result;
use steadfast_storage::engine::{
    AcquireOutcome, CasOutcome, Engine, Entry, EventBatch, Flush, Outcome, ReadPosition, Record,
    Scan, TableRow,
};
use tokio::sync::watch;

use crate::samples::Samples;
use crate::stopwatch::Stopwatch;

/// Counts the calls of an engine.
pub(crate) struct Counting {
    engine: Box<dyn Engine>,
    appends: Mutex<Samples>,
    flushes: AtomicU64,
}

impl Counting {
    pub(crate) fn new(engine: impl Engine + 'static) -> Arc<Self> {
        Arc::new(Self {
            engine: Box::new(engine),
            appends: Mutex::default(),
            flushes: AtomicU64::new(0),
        })
    }

    /// The duration of each append since the last call; each is one group and one sync
    /// of the log.
    pub(crate) fn take_appends(&self) -> Samples {
        std::mem::take(&mut *self.lock())
    }

    /// Partitions that were flushed.
    pub(crate) fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Samples> {
        // A panic between two pushes leaves nothing half done.
        self.appends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Engine for Counting {
    async fn acquire(
        &self,
        partition: Partition,
        owner: Owner,
        expect: Epoch,
    ) -> Result<AcquireOutcome> {
        self.engine.acquire(partition, owner, expect).await
    }

    async fn release(&self, partition: Partition, epoch: Epoch) -> Result<()> {
        self.engine.release(partition, epoch).await
    }

    async fn renew(&self, owner: Owner, ttl: Duration) -> Result<()> {
        self.engine.renew(owner, ttl).await
    }

    async fn append(&self, group: &[Entry]) -> Result<Vec<Outcome>> {
        let append = Stopwatch::start();
        let outcomes = self.engine.append(group).await;
        self.lock().push(append.elapsed());
        outcomes
    }

    async fn replay(
        &self,
        partition: Partition,
        from: EntryNumber,
        max_bytes: usize,
    ) -> Result<Vec<Entry>> {
        self.engine.replay(partition, from, max_bytes).await
    }

    async fn flush(&self, flush: Flush) -> Result<()> {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        self.engine.flush(flush).await
    }

    async fn get(&self, partition: Partition, table: TableId, key: &[u8]) -> Result<Option<Bytes>> {
        self.engine.get(partition, table, key).await
    }

    async fn scan(
        &self,
        partition: Partition,
        table: TableId,
        range: Scan,
    ) -> Result<Vec<TableRow>> {
        self.engine.scan(partition, table, range).await
    }

    async fn scan_keys(
        &self,
        partition: Partition,
        table: TableId,
        range: Scan,
    ) -> Result<Vec<Bytes>> {
        self.engine.scan_keys(partition, table, range).await
    }

    async fn read_events(
        &self,
        partition: Partition,
        stream: StreamId,
        from: ReadPosition,
        max_bytes: usize,
    ) -> Result<Vec<EventBatch>> {
        let engine = &self.engine;
        engine.read_events(partition, stream, from, max_bytes).await
    }

    async fn cas(&self, key: &str, expect: u64, value: Bytes) -> Result<CasOutcome> {
        self.engine.cas(key, expect, value).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Record>> {
        self.engine.list(prefix).await
    }

    fn watch(&self) -> watch::Receiver<u64> {
        self.engine.watch()
    }
}

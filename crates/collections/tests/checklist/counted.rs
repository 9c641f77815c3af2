//! An engine that counts what is read from its tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::id::{EntryNumber, Epoch, Owner, Partition, StreamId, TableId};
use steadfast_storage::engine::{
    AcquireOutcome, CasOutcome, Entry, EventBatch, Flush, Outcome, ReadPosition, Record, Scan,
    TableRow,
};
use steadfast_storage::{Engine, Result};
use tokio::sync::watch;

pub(crate) struct Counted {
    engine: Arc<dyn Engine>,
    /// Values, by rows and by scans.
    pub(crate) values: AtomicUsize,
}

impl Counted {
    pub(crate) fn new(engine: Arc<dyn Engine>) -> Self {
        Self {
            engine,
            values: AtomicUsize::new(0),
        }
    }

    /// How many values were read since the last time.
    pub(crate) fn take(&self) -> usize {
        self.values.swap(0, Ordering::SeqCst)
    }
}

#[async_trait::async_trait]
impl Engine for Counted {
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
        self.engine.append(group).await
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
        self.engine.flush(flush).await
    }

    async fn get(&self, partition: Partition, table: TableId, key: &[u8]) -> Result<Option<Bytes>> {
        self.values.fetch_add(1, Ordering::SeqCst);
        self.engine.get(partition, table, key).await
    }

    async fn scan(
        &self,
        partition: Partition,
        table: TableId,
        range: Scan,
    ) -> Result<Vec<TableRow>> {
        let rows = self.engine.scan(partition, table, range).await?;
        self.values.fetch_add(rows.len(), Ordering::SeqCst);
        Ok(rows)
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

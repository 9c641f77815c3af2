//! The engine on PostgreSQL, for tests of any engine.
//!
//! All tests of a process share one server without standbys; each engine has its own
//! schema. The engine lives on a runtime of its own, because tests pause their
//! clock: a paused runtime would let hours pass while it waits for a socket. It
//! does not while a blocking task runs, so that is what each call becomes.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::id::{EntryNumber, Epoch, Owner, Partition, StreamId, TableId};
use steadfast_harness::postgres::PostgresServer;
use steadfast_storage::engine::{
    AcquireOutcome, CasOutcome, Entry, EventBatch, Flush, Outcome, ReadPosition, Record, Scan,
    TableRow,
};
use steadfast_storage::{Engine, Result};
use steadfast_storage_postgres::{Durability, Options, PostgresEngine};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// Random cases of one property: each begins with a new schema.
pub(crate) const CASES: u32 = 12;

/// An engine that is empty.
pub(crate) async fn fresh() -> Arc<dyn Engine> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    beside(move || {
        open(
            PostgresServer::shared().url("postgres"),
            format!("fresh_{number}"),
        )
    })
    .await
}

/// The engine in a schema, as another process left it.
pub(crate) async fn open(url: String, schema: String) -> Arc<dyn Engine> {
    let options = Options {
        durability: Durability::Single,
        schema,
        ..Options::new(url)
    };
    Arc::new(Beside(Arc::new(
        PostgresEngine::open(options).await.unwrap(),
    )))
}

/// The runtime that all engines live on.
fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        runtime.worker_threads(2).enable_all().build().unwrap()
    })
}

/// Does work on the engines' runtime while time stands still here.
pub(crate) async fn beside<T, W>(work: impl FnOnce() -> W + Send + 'static) -> T
where
    T: Send + 'static,
    W: Future<Output = T>,
{
    let done = tokio::task::spawn_blocking(move || runtime().block_on(work()));
    done.await.unwrap()
}

/// An engine that is called from another runtime than its own.
struct Beside(Arc<PostgresEngine>);

macro_rules! call {
    ($self:ident, $engine:ident => $call:expr) => {{
        let $engine = Arc::clone(&$self.0);
        beside(move || async move { $call.await }).await
    }};
}

#[async_trait::async_trait]
impl Engine for Beside {
    async fn acquire(
        &self,
        partition: Partition,
        owner: Owner,
        expect: Epoch,
    ) -> Result<AcquireOutcome> {
        call!(self, engine => engine.acquire(partition, owner, expect))
    }

    async fn release(&self, partition: Partition, epoch: Epoch) -> Result<()> {
        call!(self, engine => engine.release(partition, epoch))
    }

    async fn renew(&self, owner: Owner, ttl: Duration) -> Result<()> {
        call!(self, engine => engine.renew(owner, ttl))
    }

    async fn append(&self, group: &[Entry]) -> Result<Vec<Outcome>> {
        let group = group.to_vec();
        call!(self, engine => engine.append(&group))
    }

    async fn replay(
        &self,
        partition: Partition,
        from: EntryNumber,
        max_bytes: usize,
    ) -> Result<Vec<Entry>> {
        call!(self, engine => engine.replay(partition, from, max_bytes))
    }

    async fn flush(&self, flush: Flush) -> Result<()> {
        call!(self, engine => engine.flush(flush))
    }

    async fn get(&self, partition: Partition, table: TableId, key: &[u8]) -> Result<Option<Bytes>> {
        let key = key.to_vec();
        call!(self, engine => engine.get(partition, table, &key))
    }

    async fn scan(
        &self,
        partition: Partition,
        table: TableId,
        range: Scan,
    ) -> Result<Vec<TableRow>> {
        call!(self, engine => engine.scan(partition, table, range))
    }

    async fn scan_keys(
        &self,
        partition: Partition,
        table: TableId,
        range: Scan,
    ) -> Result<Vec<Bytes>> {
        call!(self, engine => engine.scan_keys(partition, table, range))
    }

    async fn read_events(
        &self,
        partition: Partition,
        stream: StreamId,
        from: ReadPosition,
        max_bytes: usize,
    ) -> Result<Vec<EventBatch>> {
        call!(self, engine => engine.read_events(partition, stream, from, max_bytes))
    }

    async fn cas(&self, key: &str, expect: u64, value: Bytes) -> Result<CasOutcome> {
        let key = key.to_owned();
        call!(self, engine => engine.cas(&key, expect, value))
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Record>> {
        let prefix = prefix.to_owned();
        call!(self, engine => engine.list(&prefix))
    }

    fn watch(&self) -> watch::Receiver<u64> {
        self.0.watch()
    }
}

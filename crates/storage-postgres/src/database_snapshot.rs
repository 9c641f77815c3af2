//! A read-only snapshot of a database.
//!
//! One read-only transaction sees log, rows and events of all partitions at one moment,
//! while their owners go on. A write after its start has to be acknowledged before
//! anything is read, so everything it sees is replicated. Partitions are not taken from
//! their owners, and nothing can be written.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use steadfast_core::id::{EntryNumber, Epoch, Owner, Partition, Sequence, StreamId, TableId};
use steadfast_storage::engine::{
    AcquireOutcome, CasOutcome, Engine, Entry, EventBatch, Flush, Outcome, ReadPosition, Record,
    Scan, TableRow, Tenure,
};
use steadfast_storage::{Error, Result};
use tokio::sync::watch;

use crate::cas::{self, SHARD_RECORDS};
use crate::digest;
use crate::engine::PostgresEngine;
use crate::error::ErrorKind;
use crate::schema::segment_of;
use crate::session::{Session, within};
use crate::statement_error::StatementError;
use crate::{listing, read, verify};

/// A snapshot must not be older than the locks that keep segments of events from being
/// dropped, so the locks come first.
const BEGIN: &str = "set idle_in_transaction_session_timeout = 0;
    begin isolation level repeatable read read only;
    lock table sf_event in access share mode;
    select count(*) from sf_meta";
const BARRIER: &str = "update sf_meta set v = v where k = 'cluster'";
const FIND: &str = "select p.epoch, p.commit_no, f.flushed_no, f.hash, f.tables, f.hubs, f.meta
    from sf_partition p join sf_flush f on f.part = p.part
    where p.part = $1 and p.moved is null";

/// How long verifying a log may take.
const LONG: Duration = Duration::from_secs(600);

/// A snapshot of a database.
pub struct DatabaseSnapshot {
    engine: Arc<PostgresEngine>,
    session: Session,
    found: Mutex<BTreeMap<Partition, FlushedPartition>>,
}

/// What a partition's last flush left.
#[derive(Default)]
struct FlushedPartition {
    tables: Vec<TableId>,
    trimmed: BTreeMap<StreamId, Sequence>,
}

impl DatabaseSnapshot {
    /// Takes a snapshot of the database.
    pub(crate) async fn begin(engine: Arc<PostgresEngine>) -> Result<Self> {
        let shared = engine.shared();
        let patience = shared.options().patience;
        let session = shared.servers.connect_strictly(patience).await?;
        let begun = async { Ok(session.client.batch_execute(BEGIN).await?) };
        let deadline = shared.options().deadline;
        let done = within(deadline, begun).await;
        done.map_err(|fault| fault.into_error("show a moment"))?;
        let lent = shared.keepers.take().await?;
        let written = within(deadline, lent.write(BARRIER, &[])).await;
        let written = lent.settle(written);
        written.map_err(|fault| fault.into_error("confirm a moment"))?;
        Ok(Self {
            engine,
            session,
            found: Mutex::default(),
        })
    }

    /// Partitions that had ever had an owner, in order.
    pub async fn partitions(&self) -> Result<Vec<Partition>> {
        let found = within(read::DEADLINE, listing::partitions(&self.session)).await;
        found.map_err(|fault| fault.into_error("list partitions"))
    }

    /// Tables with rows of a partition that was acquired, in order.
    pub fn tables(&self, partition: Partition) -> Vec<TableId> {
        let found = self.found.lock();
        let found = found.get(&partition);
        found.map_or_else(Vec::new, |found| found.tables.clone())
    }

    async fn find(
        &self,
        partition: Partition,
    ) -> std::result::Result<Option<Tenure>, StatementError> {
        let rows = self.session.query(FIND, &[&(partition.0 as i32)]).await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let malformed =
            |_| StatementError::Damaged("what the last flush left is malformed".to_string());
        let bytes = |index| row.try_get::<_, &[u8]>(index).map(Bytes::copy_from_slice);
        let number = |index| row.try_get::<_, i64>(index).map(|number| number as u64);
        let (last, flushed) = (EntryNumber(number(1)?), EntryNumber(number(2)?));
        let hash = number(3)?;
        let links = verify::log(&self.session, partition, flushed, hash, last).await?;
        let tables = digest::decode_tables(bytes(4)?).map_err(malformed)?;
        let hubs = digest::decode_hubs(bytes(5)?).map_err(malformed)?;
        let trimmed = hubs.into_iter().map(|(stream, ends)| (stream, ends.first));
        let found = FlushedPartition {
            tables: tables.into_keys().map(TableId).collect(),
            trimmed: trimmed.collect(),
        };
        self.found.lock().insert(partition, found);
        Ok(Some(Tenure {
            epoch: Epoch(number(0)?),
            last,
            last_hash: links.last().map_or(hash, |link| link.hash),
            flushed,
            meta: bytes(6)?,
        }))
    }

    /// Reads with a deadline; an interrupted snapshot cannot be resumed.
    async fn reading<T>(
        &self,
        partition: Partition,
        doing: &'static str,
        work: impl Future<Output = std::result::Result<T, StatementError>>,
    ) -> Result<T> {
        let done = within(read::DEADLINE, work).await;
        done.map_err(|fault| fault.of(partition, doing))
    }
}

fn past() -> Error {
    let doing = "write into a moment that has passed";
    Error::new(ErrorKind::Database { doing })
}

#[async_trait]
impl Engine for DatabaseSnapshot {
    async fn acquire(&self, partition: Partition, _: Owner, _: Epoch) -> Result<AcquireOutcome> {
        let found = within(LONG, self.find(partition)).await;
        let found = found.map_err(|fault| fault.of(partition, "show a partition"))?;
        let nothing = AcquireOutcome::Refused {
            epoch: Epoch(0),
            owner: None,
        };
        Ok(found.map_or(nothing, AcquireOutcome::Granted))
    }

    async fn release(&self, _: Partition, _: Epoch) -> Result<()> {
        Ok(())
    }

    async fn renew(&self, _: Owner, _: Duration) -> Result<()> {
        Ok(())
    }

    async fn append(&self, _: &[Entry]) -> Result<Vec<Outcome>> {
        Err(past())
    }

    async fn replay(
        &self,
        partition: Partition,
        from: EntryNumber,
        max_bytes: usize,
    ) -> Result<Vec<Entry>> {
        let work = read::replay(&self.session, partition, from, max_bytes);
        self.reading(partition, "read the log", work).await
    }

    async fn flush(&self, _: Flush) -> Result<()> {
        Err(past())
    }

    async fn get(&self, partition: Partition, table: TableId, key: &[u8]) -> Result<Option<Bytes>> {
        let work = read::get(&self.session, partition, table, key);
        self.reading(partition, "read a row", work).await
    }

    async fn scan(
        &self,
        partition: Partition,
        table: TableId,
        range: Scan,
    ) -> Result<Vec<TableRow>> {
        let work = read::scan(&self.session, partition, table, &range);
        self.reading(partition, "scan a table", work).await
    }

    async fn read_events(
        &self,
        partition: Partition,
        stream: StreamId,
        from: ReadPosition,
        max_bytes: usize,
    ) -> Result<Vec<EventBatch>> {
        let length = self.engine.shared().options().segment;
        let segment = match from {
            ReadPosition::Time(time) => segment_of(time, length),
            _ => 0,
        };
        let session = &self.session;
        let work = read::events(session, partition, stream, from, segment, max_bytes);
        let mut batches = self.reading(partition, "read events", work).await?;
        let found = self.found.lock();
        let trimmed = found
            .get(&partition)
            .and_then(|own| own.trimmed.get(&stream));
        if let Some(first) = trimmed {
            batches.retain(|batch| batch.next() > *first);
        }
        Ok(batches)
    }

    /// Writes to the database itself: a backup may have to record the life of the store.
    async fn cas(&self, key: &str, expect: u64, value: Bytes) -> Result<CasOutcome> {
        self.engine.cas(key, expect, value).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Record>> {
        let found = within(read::DEADLINE, cas::list(&self.session, prefix)).await;
        let mut found = found.map_err(|fault| fault.into_error("list cluster records"))?;
        found.retain(|record| !record.key.starts_with(SHARD_RECORDS));
        Ok(found)
    }

    fn watch(&self) -> watch::Receiver<u64> {
        self.engine.watch()
    }
}

//! The engine on PostgreSQL behind the seam.
//!
//! The database is a replicated, fenced log with tables beside it. A statement that is
//! answered late, with a warning or not at all has an unknown outcome; only acquiring
//! the partition again resolves it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::id::{EntryNumber, Epoch, Owner, Partition, StreamId, TableId};
use steadfast_core::limits;
use steadfast_core::task::name_task;
use steadfast_storage::engine::{
    AcquireOutcome, CasOutcome, Engine, Entry, EventBatch, Flush, Outcome, ReadPosition, Record,
    Scan, TableRow,
};
use steadfast_storage::{Error, ErrorKind, Result};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::context::PostgresContext;
use crate::options::Options;
use crate::schema::{self, segment_of};
use crate::scrub::{self, ScrubReport};
use crate::servers::Servers;
use crate::session::{Session, within};
use crate::{append, cas, flush, listing, read, safety, tenure, watcher};

/// How long opening may look for a primary.
const OPEN: Duration = Duration::from_secs(10);

/// How long a primary may be without a standby at start.
const GRACE: Duration = Duration::from_secs(6);

/// How often an interrupted read is tried.
const READS: u32 = 4;

/// An engine on a PostgreSQL cluster.
pub struct PostgresEngine {
    shared: Arc<PostgresContext>,
    cluster: String,
    tasks: Vec<JoinHandle<()>>,
}

impl PostgresEngine {
    /// Connects to the primary, refuses it if it is not safe, and brings the
    /// schema up to date.
    pub async fn open(options: Options) -> Result<Self> {
        let patience = options.patience.min(OPEN);
        let shared = Arc::new(PostgresContext::new(Servers::new(options)?));
        let mut session = shared.servers.connect_strictly(patience).await?;
        expect_standby(&shared, &session).await?;
        let cluster = schema::migrate(&mut session, &shared.servers).await?;
        shared.keepers.keep(session);
        let tasks = vec![
            tokio::spawn(name_task(watcher::run(Arc::clone(&shared)))),
            tokio::spawn(name_task(scrub::run(Arc::clone(&shared)))),
        ];
        Ok(Self {
            shared,
            cluster,
            tasks,
        })
    }

    /// The identity of the cluster, drawn when its schema was made.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Checks everything on every server, standbys included.
    pub async fn scrub(&self) -> Vec<ScrubReport> {
        scrub::scrub(&self.shared).await
    }

    /// What all parts of the engine share.
    pub(crate) fn shared(&self) -> &PostgresContext {
        &self.shared
    }

    /// Replay lag of the slowest standby at the last check, in milliseconds.
    pub fn replay_lag_ms(&self) -> u64 {
        self.shared.replay_lag_ms.load(Ordering::Relaxed)
    }

    /// How many commit statements were sent so far.
    pub fn statements(&self) -> u64 {
        self.shared.statements.load(Ordering::Relaxed)
    }

    /// Fails while the settings of the primary are unsafe.
    pub fn health(&self) -> Result<()> {
        self.shared.expect_safe()
    }
}

/// Refuses a primary without standbys; right after a failover they may need a moment
/// to find it.
async fn expect_standby(shared: &PostgresContext, session: &Session) -> Result<()> {
    let check = || safety::check_start(session, shared.options().durability);
    let grace = shared.options().patience.min(GRACE);
    let asking = async {
        while check().await.is_err() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    match tokio::time::timeout(grace, asking).await {
        Ok(()) => Ok(()),
        Err(_) => check().await,
    }
}

impl Drop for PostgresEngine {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Reads with a pooled session; retries if it is interrupted.
macro_rules! reading {
    ($engine:ident, $partition:expr, $doing:literal, $session:ident => $work:expr) => {{
        let mut attempt = 0;
        loop {
            attempt += 1;
            let lent = $engine.shared.readers.take().await?;
            let $session = &*lent;
            let done = async {
                if let Some(partition) = $partition {
                    tenure::revisit(&$engine.shared, $session, partition).await?;
                }
                within(read::DEADLINE, $work).await
            };
            let servers = &$engine.shared.servers;
            let done = servers.while_newest(lent.timeline, done).await;
            match (lent.settle(done), $partition) {
                (Err(fault), _) if fault.is_transient() && attempt < READS => {}
                (Err(fault), Some(partition)) => break Err(fault.of(partition, $doing)),
                (Err(fault), None) => break Err(fault.into_error($doing)),
                (Ok(found), _) => break Ok(found),
            }
        }
    }};
}

impl PostgresEngine {
    /// Partitions that have ever had an owner, in order.
    pub async fn partitions(&self) -> Result<Vec<Partition>> {
        reading!(self, None::<Partition>, "list partitions", session =>
            listing::partitions(session))
    }

    /// Partitions that were moved to another database, and its identity.
    pub async fn moved(&self) -> Result<Vec<(Partition, String)>> {
        reading!(self, None::<Partition>, "list what was moved", session =>
            listing::moved(session))
    }

    /// Tables of a partition that have flushed rows, in order.
    pub async fn tables(&self, partition: Partition) -> Result<Vec<TableId>> {
        reading!(self, Some(partition), "list tables", session =>
            listing::tables(session, partition))
    }

    /// Nodes whose lease has not ended, in order.
    pub async fn nodes(&self) -> Result<Vec<u32>> {
        reading!(self, None::<Partition>, "list nodes", session =>
            listing::nodes(session))
    }
}

#[async_trait]
impl Engine for PostgresEngine {
    async fn acquire(
        &self,
        partition: Partition,
        owner: Owner,
        expect: Epoch,
    ) -> Result<AcquireOutcome> {
        tenure::acquire(&self.shared, partition, owner, expect).await
    }

    async fn release(&self, partition: Partition, epoch: Epoch) -> Result<()> {
        tenure::release(&self.shared, partition, epoch).await
    }

    async fn renew(&self, owner: Owner, ttl: Duration) -> Result<()> {
        tenure::renew(&self.shared, owner, ttl).await
    }

    async fn append(&self, group: &[Entry]) -> Result<Vec<Outcome>> {
        append::append(&self.shared, group).await
    }

    async fn replay(
        &self,
        partition: Partition,
        from: EntryNumber,
        max_bytes: usize,
    ) -> Result<Vec<Entry>> {
        reading!(self, Some(partition), "read the log", session =>
            read::replay(session, partition, from, max_bytes))
    }

    async fn flush(&self, flush: Flush) -> Result<()> {
        flush::flush(&self.shared, &flush).await
    }

    async fn get(&self, partition: Partition, table: TableId, key: &[u8]) -> Result<Option<Bytes>> {
        reading!(self, Some(partition), "read a row", session =>
            read::get(session, partition, table, key))
    }

    async fn scan(
        &self,
        partition: Partition,
        table: TableId,
        range: Scan,
    ) -> Result<Vec<TableRow>> {
        reading!(self, Some(partition), "scan a table", session =>
            read::scan(session, partition, table, &range))
    }

    async fn scan_keys(
        &self,
        partition: Partition,
        table: TableId,
        range: Scan,
    ) -> Result<Vec<Bytes>> {
        reading!(self, Some(partition), "scan a table", session =>
            read::scan_keys(session, partition, table, &range))
    }

    async fn read_events(
        &self,
        partition: Partition,
        stream: StreamId,
        from: ReadPosition,
        max_bytes: usize,
    ) -> Result<Vec<EventBatch>> {
        let segment = match from {
            ReadPosition::Time(time) => segment_of(time, self.shared.options().segment),
            _ => 0,
        };
        let found: Result<Vec<EventBatch>> = reading!(self, Some(partition), "read events", session =>
                read::events(session, partition, stream, from, segment, max_bytes));
        let mut found = found?;
        let holdings = self.shared.holdings.lock();
        let trimmed = holdings
            .get(&partition)
            .and_then(|held| held.trimmed.get(&stream));
        if let Some(first) = trimmed {
            found.retain(|batch| batch.next() > *first);
        }
        Ok(found)
    }

    async fn cas(&self, key: &str, expect: u64, value: Bytes) -> Result<CasOutcome> {
        if key.len() > limits::RECORD_KEY_BYTES {
            return Err(Error::new(ErrorKind::TooLarge {
                what: "the key of a cluster record",
                bytes: key.len(),
                limit: limits::RECORD_KEY_BYTES,
            }));
        }
        cas::swap(&self.shared, key, expect, &value).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Record>> {
        reading!(self, None::<Partition>, "list cluster records", session =>
            cas::list(session, prefix))
    }

    fn watch(&self) -> watch::Receiver<u64> {
        self.shared.wake.subscribe()
    }
}

//! The local engine behind the seam.
//!
//! Two threads write: one the log, one tables and event files. Reads that may touch
//! the disk run on the runtime's blocking threads.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use steadfast_core::clock::{Clock, SystemClock};
use steadfast_core::id::{EntryNumber, Epoch, Owner, Partition, StreamId, TableId};
use steadfast_core::limits;
use steadfast_storage::background::lower_priority;
use steadfast_storage::engine::{
    AcquireOutcome, CasOutcome, Engine, Entry, EventBatch, Flush, Outcome, ReadPosition, Record,
    Scan, TableRow, Tenure,
};
use steadfast_storage::{Error, ErrorKind as StorageKind, Result};
use tokio::sync::{oneshot, watch};

use crate::commit_log::{CommitLog, Request};
use crate::control::ControlState;
use crate::data_folder::{DataFolder, is_data_folder};
use crate::error::ErrorKind;
use crate::events::EventFiles;
use crate::flush_thread::{self, FlushRequest};
use crate::read;
use crate::recovery::recover;
use crate::spare_files::SpareFiles;
use crate::tables::{self, Tables};

/// How a local engine is set up; every value has a default.
#[derive(Clone)]
pub struct Options {
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
    /// Size of a file of the commit log.
    pub log_file_bytes: u64,
    /// Size of a file of events.
    pub event_file_bytes: u64,
    /// Event bytes of one stream in one group from which they bypass the log.
    pub inline_event_bytes: usize,
    /// Memory for blocks of the tables.
    pub block_cache_bytes: u64,
    /// How fast a flush writes at most, in bytes per second.
    pub flush_rate_bytes: u64,
    /// Make log files ahead of their use and compact behind the answer. Without
    /// it the order of all disk operations is fixed, as simulations need it.
    pub background: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock::new()),
            log_file_bytes: 16 * 1024 * 1024,
            event_file_bytes: 16 * 1024 * 1024,
            inline_event_bytes: limits::INLINE_EVENT_BYTES,
            block_cache_bytes: 32 * 1024 * 1024,
            flush_rate_bytes: limits::FLUSH_RATE_BYTES,
            background: true,
        }
    }
}

/// An engine on a folder of this machine.
pub struct LocalEngine {
    control: Arc<Mutex<ControlState>>,
    events: Arc<EventFiles>,
    tables: Arc<Tables>,
    log: Option<Sender<Request>>,
    orders: Option<Sender<FlushRequest>>,
    threads: Vec<JoinHandle<()>>,
    wake: watch::Sender<u64>,
    /// Unlocks the folder, after everything else is dropped: an abandoned read
    /// holds it, too.
    folder: Arc<DataFolder>,
}

impl LocalEngine {
    /// Opens a folder, creating it if need be, and recovers it after a crash.
    pub fn open(path: &Path, options: &Options) -> Result<Self> {
        let folder = DataFolder::open(path)?;
        let tables = folder.root.join("tables");
        let tables = Arc::new(Tables::open(&tables, options.block_cache_bytes)?);
        let log_folder = folder.root.join("log");
        let clock = Arc::clone(&options.clock);
        let recovered = recover(&log_folder, folder.salt, &tables, clock)?;
        let events = folder.root.join("events");
        let ends = recovered.control.ends();
        let events = Arc::new(EventFiles::new(&events, options.event_file_bytes, ends));
        let control = Arc::new(Mutex::new(recovered.control));
        let log = CommitLog {
            control: Arc::clone(&control),
            events: Arc::clone(&events),
            salt: folder.salt,
            segments: recovered.segments,
            next_segment: recovered.next_segment,
            at: recovered.at,
            previous: recovered.previous,
            mark: recovered.mark,
            spares: SpareFiles::new(
                &log_folder,
                options.log_file_bytes,
                recovered.next_slot,
                recovered.spares,
                options.background,
            )?,
            inline_bytes: options.inline_event_bytes,
            stopped: None,
            folder: log_folder,
        };
        let mut local = Self {
            control,
            events,
            tables,
            log: None,
            orders: None,
            threads: Vec::new(),
            wake: watch::channel(0).0,
            folder: Arc::new(folder),
        };
        local.start(log, options)?;
        Ok(local)
    }

    /// Opens an existing folder; never creates one.
    pub fn open_existing(path: &Path, options: &Options) -> Result<Self> {
        if path.exists() && !is_data_folder(path) {
            let path = path.to_path_buf();
            return Err(Error::new(ErrorKind::ForeignFolder { path }));
        }
        if !is_data_folder(path) {
            let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(Error::io(path, "find the data folder", missing));
        }
        Self::open(path, options)
    }

    /// Partitions that have ever had an owner, in order.
    pub fn partitions(&self) -> Vec<Partition> {
        self.control.lock().partitions.keys().copied().collect()
    }

    /// Tables of a partition that have flushed rows, in order.
    pub fn tables(&self, partition: Partition) -> Result<Vec<TableId>> {
        self.tables.tables(partition)
    }

    /// Where a new owner would find a partition, without one.
    pub fn tenure(&self, partition: Partition) -> Tenure {
        self.control.lock().fence(partition).tenure()
    }

    fn start(&mut self, log: CommitLog, options: &Options) -> Result<()> {
        let path = log.folder.clone();
        let failed = |e| Error::io(&path, "start a thread for", e);
        let (requests, inbox) = channel();
        let fold = flush_thread::FlushThread {
            control: Arc::clone(&self.control),
            events: Arc::clone(&self.events),
            tables: Arc::clone(&self.tables),
            log: requests.clone(),
            in_order: !options.background,
            rate: options.flush_rate_bytes,
        };
        self.log = Some(requests);
        let thread = std::thread::Builder::new().name("steadfast-log".into());
        let thread = thread.spawn(move || log.run(&inbox)).map_err(failed)?;
        self.threads.push(thread);
        let (orders, inbox) = channel();
        self.orders = Some(orders);
        let thread = std::thread::Builder::new().name("steadfast-flush".into());
        let run = move || {
            lower_priority();
            fold.run(&inbox);
        };
        let thread = thread.spawn(run).map_err(failed)?;
        self.threads.push(thread);
        Ok(())
    }

    /// Sends a request to the log thread and waits for its answer.
    async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T>>) -> Request,
    ) -> Result<T> {
        let closed = || Error::new(StorageKind::Closed);
        let (reply, answer) = oneshot::channel();
        let log = self.log.as_ref().ok_or_else(closed)?;
        log.send(request(reply)).map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    /// Runs blocking disk work on the runtime's blocking threads.
    async fn beside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let folder = Arc::clone(&self.folder);
        let work = move || {
            let done = work();
            drop(folder);
            done
        };
        let done = tokio::task::spawn_blocking(work).await;
        done.map_err(|error| Error::caused(StorageKind::Closed, error))?
    }

    fn woken(&self) {
        self.wake.send_modify(|count| *count += 1);
    }
}

impl Drop for LocalEngine {
    /// Waits for the threads, so that the folder is quiet when it is unlocked.
    fn drop(&mut self) {
        self.orders = None;
        self.log = None;
        // The flush thread holds a sender of the log's, so it ends first.
        while let Some(thread) = self.threads.pop() {
            if thread.join().is_err() {
                tracing::error!(
                    event = "storage.thread_panicked",
                    "a thread of the local engine has panicked"
                );
            }
        }
    }
}

#[async_trait]
impl Engine for LocalEngine {
    async fn acquire(
        &self,
        partition: Partition,
        owner: Owner,
        expect: Epoch,
    ) -> Result<AcquireOutcome> {
        let acquired = self
            .ask(|reply| Request::Acquire {
                partition,
                owner,
                expect,
                reply,
            })
            .await?;
        self.woken();
        Ok(acquired)
    }

    async fn release(&self, partition: Partition, epoch: Epoch) -> Result<()> {
        self.ask(|reply| Request::Release {
            partition,
            epoch,
            reply,
        })
        .await?;
        self.woken();
        Ok(())
    }

    async fn renew(&self, owner: Owner, ttl: Duration) -> Result<()> {
        self.control.lock().leases.renew(owner, ttl);
        Ok(())
    }

    async fn append(&self, group: &[Entry]) -> Result<Vec<Outcome>> {
        let group = group.to_vec();
        self.ask(|reply| Request::Append(group, reply)).await
    }

    async fn replay(
        &self,
        partition: Partition,
        from: EntryNumber,
        max_bytes: usize,
    ) -> Result<Vec<Entry>> {
        let (control, events) = (Arc::clone(&self.control), Arc::clone(&self.events));
        self.beside(move || read::replay(&control, &events, partition, from, max_bytes))
            .await
    }

    async fn flush(&self, flush: Flush) -> Result<()> {
        let closed = || Error::new(StorageKind::Closed);
        let (reply, answer) = oneshot::channel();
        let orders = self.orders.as_ref().ok_or_else(closed)?;
        orders.send((flush, reply)).map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    async fn get(&self, partition: Partition, table: TableId, key: &[u8]) -> Result<Option<Bytes>> {
        let tables = Arc::clone(&self.tables);
        let key = tables::row_key(partition, table, key);
        self.beside(move || tables.get(&key)).await
    }

    async fn scan(
        &self,
        partition: Partition,
        table: TableId,
        range: Scan,
    ) -> Result<Vec<TableRow>> {
        let tables = Arc::clone(&self.tables);
        self.beside(move || tables.scan(partition, table, &range))
            .await
    }

    async fn scan_keys(
        &self,
        partition: Partition,
        table: TableId,
        range: Scan,
    ) -> Result<Vec<Bytes>> {
        let tables = Arc::clone(&self.tables);
        self.beside(move || tables.scan_keys(partition, table, &range))
            .await
    }

    async fn read_events(
        &self,
        partition: Partition,
        stream: StreamId,
        from: ReadPosition,
        max_bytes: usize,
    ) -> Result<Vec<EventBatch>> {
        let (control, events) = (Arc::clone(&self.control), Arc::clone(&self.events));
        self.beside(move || {
            read::read_events(&control, &events, partition, stream, from, max_bytes)
        })
        .await
    }

    async fn cas(&self, key: &str, expect: u64, value: Bytes) -> Result<CasOutcome> {
        if key.len() > limits::KEY_BYTES {
            return Err(Error::new(StorageKind::TooLarge {
                what: "a key",
                bytes: key.len(),
                limit: limits::KEY_BYTES,
            }));
        }
        let key = key.to_string();
        let swap = self
            .ask(|reply| Request::Cas {
                key,
                expect,
                value,
                reply,
            })
            .await?;
        self.woken();
        Ok(swap)
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Record>> {
        Ok(self.control.lock().records.list(prefix))
    }

    fn watch(&self) -> watch::Receiver<u64> {
        self.wake.subscribe()
    }
}

//! The store: the layers above one engine.
//!
//! A store belongs to one node. It acquires partitions, commits for all of them
//! in shared groups, flushes behind them, and gives them up in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use steadfast_core::clock::{Clock, SystemClock};
use steadfast_core::id::{EntryNumber, Epoch, Owner, Partition};
use steadfast_core::limits;
use steadfast_core::task::name_task;
use tokio::task::JoinHandle;

use crate::background::BackgroundThread;
use crate::body::EntryBody;
use crate::budget::Budget;
use crate::cache::RowCache;
use crate::committers::Committers;
use crate::engine::{AcquireOutcome, Engine, Entry, Tenure};
use crate::error::{Error, ErrorKind, Result};
use crate::flush::{self, OwnedPartitions};
use crate::ledger::Ledger;
use crate::meta;
use crate::node_context::NodeContext;
use crate::node_lease::NodeLease;
use crate::partition_state::PartitionState;
use crate::state::State;
use crate::streams::{EventStreams, TailBudget};

/// How a store is set up; every value has a default.
#[derive(Clone)]
pub struct Options {
    /// The node that the store belongs to.
    pub owner: Owner,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
    /// Until when reads from memory are allowed. For a node that others may replace;
    /// without a lease they always are.
    pub lease: Option<NodeLease>,
    /// Unflushed log bytes at which flushing starts.
    pub log_target: u64,
    /// Unflushed log bytes at which writers are throttled.
    pub log_limit: u64,
    /// Memory for cached rows.
    pub row_cache: u64,
    /// Memory for the tails of event streams.
    pub event_tail: u64,
    /// Whether long work gets a thread of its own. Without one the caller does it,
    /// so that nothing in a simulation depends on a race.
    pub background: bool,
}

impl Options {
    /// The defaults for a node in one of its lives.
    pub fn new(owner: Owner) -> Self {
        Self {
            owner,
            clock: Arc::new(SystemClock::new()),
            lease: None,
            log_target: limits::LOG_TARGET_BYTES,
            log_limit: limits::LOG_LIMIT_BYTES,
            row_cache: limits::ROW_CACHE_BYTES,
            event_tail: limits::EVENT_TAIL_BYTES,
            background: true,
        }
    }
}

/// Partitions on one engine, committed in shared groups.
pub struct Store {
    pub(crate) node: Arc<NodeContext>,
    lanes: Committers,
    owned: Arc<OwnedPartitions>,
    tasks: Vec<JoinHandle<()>>,
}

/// Log bytes that are read at a time when a partition is loaded.
const REPLAY_BYTES: usize = 8 * 1024 * 1024;

impl Store {
    /// Starts a store on the current runtime.
    pub fn start(engine: Arc<dyn Engine>, options: Options) -> Self {
        let node = Arc::new(NodeContext {
            engine,
            clock: options.clock,
            owner: options.owner,
            lease: options.lease,
            budget: Budget::new(options.log_target, options.log_limit),
            cache: Arc::new(RowCache::new(options.row_cache)),
            tails: Arc::new(TailBudget::new(options.event_tail)),
            behind: BackgroundThread::start(options.background),
            fenced: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
            groups: AtomicU64::new(0),
            backing_up: AtomicBool::new(false),
        });
        let owned = Arc::new(OwnedPartitions::default());
        let flushing = tokio::spawn(name_task(flush::run(Arc::clone(&node), Arc::clone(&owned))));
        Self {
            node,
            lanes: Committers::default(),
            owned,
            tasks: vec![flushing],
        }
    }

    /// The engine underneath.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.node.engine
    }

    /// The partitions that the store has, in order; those that it has lost are left
    /// out.
    pub fn owned(&self) -> Vec<Ledger> {
        let owned = self.owned.lock();
        let alive = owned
            .values()
            .filter(|shared| shared.read_checked().is_ok());
        let ledger = |shared: &Arc<PartitionState>| Ledger {
            shared: Arc::clone(shared),
        };
        alive.map(ledger).collect()
    }

    /// Log bytes that are committed but not yet flushed.
    pub fn unflushed(&self) -> u64 {
        self.node.budget.unflushed()
    }

    /// Acquires a partition and loads what is not in its tables yet.
    pub async fn acquire(&self, partition: Partition) -> Result<Ledger> {
        let leased = self.leased();
        if self.node.lease.is_some() && leased.is_none() {
            // It would be unusable, and acquiring would fence the current owner.
            return Err(Error::new(ErrorKind::LeaseEnded { partition }));
        }
        let tenure = self.take(partition).await?;
        let state = self.load(partition, tenure).await?;
        self.node.budget.add(state.overlay.bytes());
        let node = Arc::clone(&self.node);
        let ready = self.lanes.of(node.engine.shard(partition), &node);
        let shared = Arc::new(PartitionState::new(partition, node, ready, state));
        let before = self.owned.lock().insert(partition, Arc::clone(&shared));
        if let Some(before) = before {
            // The previous owner was this store itself.
            let epoch = shared.read().epoch;
            before.abandon(&Error::new(ErrorKind::Fenced { partition, epoch }));
        }
        if self.leased() != leased {
            // The lease ended meanwhile, before this partition was listed: others may own it.
            self.abandon(partition);
            return Err(Error::new(ErrorKind::LeaseEnded { partition }));
        }
        Ok(Ledger { shared })
    }

    /// Which of its leases the node has, if it has one.
    fn leased(&self) -> Option<u64> {
        self.node.lease.as_ref().and_then(NodeLease::tenure)
    }

    /// Flushes a partition and releases it. Its handles answer `Closed` from then
    /// on.
    pub async fn release(&self, ledger: &Ledger) -> Result<()> {
        let shared = &ledger.shared;
        ledger.flush().await?;
        let epoch = shared.read_checked()?.epoch;
        shared.abandon(&Error::new(ErrorKind::Closed));
        self.owned
            .lock()
            .retain(|_, ledger| !Arc::ptr_eq(ledger, shared));
        self.node.engine.release(shared.partition, epoch).await
    }

    /// Drops a partition without releasing it: another node is to own it.
    pub fn abandon(&self, partition: Partition) {
        let shared = self.owned.lock().remove(&partition);
        if let Some(shared) = shared {
            shared.abandon(&Error::new(ErrorKind::Closed));
        }
    }

    /// Drops all partitions without releasing them, because the lease has ended and others
    /// may own them. They must be acquired again before any request is answered. Returns
    /// how many partitions it dropped.
    pub fn abandon_all(&self) -> usize {
        let mut owned = std::mem::take(&mut *self.owned.lock());
        owned.retain(|_, shared| shared.read().failed.is_none());
        for shared in owned.values() {
            let partition = shared.partition;
            shared.abandon(&Error::new(ErrorKind::LeaseEnded { partition }));
        }
        owned.len()
    }

    /// How many entries were refused because another owner had the partition, and how
    /// many had an unknown outcome that had to be resolved.
    pub fn outcomes(&self) -> (u64, u64) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (read(&self.node.fenced), read(&self.node.unknown))
    }

    /// The node that this store belongs to.
    pub fn owner(&self) -> Owner {
        self.node.owner
    }

    /// Flushes all partitions, so that the next start has nothing to replay.
    pub async fn flush(&self) -> Result<()> {
        let mut owned: Vec<_> = self.owned.lock().values().cloned().collect();
        owned.retain(|ledger| ledger.read_checked().is_ok());
        let all = owned.iter().map(flush::flush_all);
        let done = futures_util::future::join_all(all).await;
        done.into_iter().collect()
    }

    /// Stops at once: what is not durable yet is not waited for. The engine closes
    /// when the last ledger is dropped.
    pub async fn close(mut self) {
        let mut tasks = std::mem::take(&mut self.tasks);
        tasks.extend(self.lanes.stop());
        for task in tasks {
            task.abort();
            // The task was aborted, or its panic was already reported.
            let _ = task.await;
        }
    }

    async fn take(&self, partition: Partition) -> Result<Tenure> {
        let owner = self.node.owner;
        let mut expect = Epoch(0);
        // The first refusal carries the epoch; another node may then still be quicker.
        for _ in 0..4 {
            match self.node.engine.acquire(partition, owner, expect).await? {
                AcquireOutcome::Granted(tenure) => return Ok(tenure),
                AcquireOutcome::Refused {
                    epoch,
                    owner: Some(owner),
                } if epoch == expect => {
                    return Err(Error::new(ErrorKind::Held { partition, owner }));
                }
                AcquireOutcome::Refused { epoch, .. } => expect = epoch,
            }
        }
        Err(Error::new(ErrorKind::Fenced {
            partition,
            epoch: expect,
        }))
    }

    async fn load(&self, partition: Partition, tenure: Tenure) -> Result<State> {
        let node = &self.node;
        let damaged = |what: &str| {
            let what = what.to_string();
            Error::new(ErrorKind::Lost { partition, what })
        };
        let meta =
            meta::decode(tenure.meta).map_err(|_| damaged("the flushed meta is malformed"))?;
        let mut state = State::new(
            tenure.epoch,
            tenure.flushed,
            meta.lsn.next(),
            meta.time,
            EventStreams::new(meta.heads, Arc::clone(&node.tails)),
            node.cache.new_version(),
        );
        state.tables = meta.tables;
        while state.last < tenure.last {
            let from = state.last.next();
            let entries = node.engine.replay(partition, from, REPLAY_BYTES).await?;
            if entries.is_empty() {
                return Err(damaged(&format!("entry {from} is missing from the log")));
            }
            for entry in entries {
                redo(&mut state, entry, &damaged)?;
            }
        }
        Ok(state)
    }
}

fn redo(state: &mut State, entry: Entry, damaged: &dyn Fn(&str) -> Error) -> Result<()> {
    let expected: EntryNumber = state.last.next();
    if entry.number != expected {
        return Err(damaged(&format!(
            "found entry {} after {}",
            entry.number, state.last
        )));
    }
    let weight = entry.weight() as u64;
    let body = EntryBody::decode(entry.body)
        .map_err(|_| damaged(&format!("entry {expected} is malformed")))?;
    state.replay(expected, &body, entry.batches, weight);
    Ok(())
}

impl Drop for Store {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }

        let owned = std::mem::take(&mut *self.owned.lock());
        for ledger in owned.values() {
            ledger.abandon(&Error::new(ErrorKind::Closed));
        }
        self.lanes.stop();
    }
}

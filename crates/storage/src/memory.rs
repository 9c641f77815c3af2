//! The memory engine: maps, for tests and volatile spaces.
//!
//! Nothing survives the process. Otherwise it keeps every promise of the seam,
//! fencing included, so what passes here fails elsewhere for the disk's sake only.
//! `replicas` keeps copies of partitions of other nodes beside its own.

mod replicas;

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use steadfast_core::clock::{Clock, SystemClock};
use steadfast_core::id::{EntryNumber, Epoch, Owner, Partition, Sequence, StreamId, TableId};
use tokio::sync::watch;

use crate::cluster_records::ClusterRecords;
use crate::engine::{
    AcquireOutcome, CasOutcome, Engine, Entry, EventBatch, Flush, Outcome, ReadPosition, Record,
    Scan, TableRow, Tenure,
};
use crate::error::{Error, ErrorKind, Result};
use crate::owner_leases::OwnerLeases;
use crate::replica_content::{ReplicaMeta, ReplicaRows, StagedCopy};

/// An engine that forgets everything when it is dropped.
pub struct MemoryEngine {
    state: Mutex<State>,
    wake: watch::Sender<u64>,
}

struct State {
    leases: OwnerLeases,
    partitions: HashMap<Partition, MemoryPartition>,
    records: ClusterRecords,
}

#[derive(Default)]
struct MemoryPartition {
    epoch: Epoch,
    owner: Option<Owner>,
    last: EntryNumber,
    last_hash: u64,
    flushed: EntryNumber,
    meta: Bytes,
    log: BTreeMap<EntryNumber, Entry>,
    tables: ReplicaRows,
    streams: HashMap<StreamId, BTreeMap<Sequence, EventBatch>>,
    /// Of a copy: the last epoch whose owner has confirmed it; 0 if it is not whole.
    accepted: Epoch,
    /// Of a copy: what an owner has in `meta`.
    folded: Option<ReplicaMeta>,
    /// A copy that is being made, and the last one that was done.
    staging: Option<StagedCopy>,
    done: (Epoch, u64),
}

impl MemoryEngine {
    /// An empty engine on the system's clock.
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock::new()))
    }

    /// An empty engine whose leases end by the given clock.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self {
            state: Mutex::new(State {
                leases: OwnerLeases::new(clock),
                partitions: HashMap::new(),
                records: ClusterRecords::default(),
            }),
            wake: watch::channel(0).0,
        }
    }
}

impl Default for MemoryEngine {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Engine for MemoryEngine {
    async fn acquire(
        &self,
        partition: Partition,
        owner: Owner,
        expect: Epoch,
    ) -> Result<AcquireOutcome> {
        let mut state = self.state.lock();
        let State {
            leases, partitions, ..
        } = &mut *state;
        let held = partitions.entry(partition).or_default();
        if held.epoch != expect || leases.blocks(held.owner, owner) {
            return Ok(AcquireOutcome::Refused {
                epoch: held.epoch,
                owner: held.owner,
            });
        }
        held.epoch = held.epoch.next();
        held.owner = Some(owner);
        let tenure = Tenure {
            epoch: held.epoch,
            last: held.last,
            last_hash: held.last_hash,
            flushed: held.flushed,
            meta: held.meta.clone(),
        };
        drop(state);
        self.wake.send_modify(|count| *count += 1);
        Ok(AcquireOutcome::Granted(tenure))
    }

    async fn release(&self, partition: Partition, epoch: Epoch) -> Result<()> {
        let mut state = self.state.lock();
        state.held(partition, epoch)?.owner = None;
        drop(state);
        self.wake.send_modify(|count| *count += 1);
        Ok(())
    }

    async fn renew(&self, owner: Owner, ttl: Duration) -> Result<()> {
        self.state.lock().leases.renew(owner, ttl);
        Ok(())
    }

    async fn append(&self, group: &[Entry]) -> Result<Vec<Outcome>> {
        let mut state = self.state.lock();
        let outcomes = group.iter().map(|entry| state.append(entry));
        Ok(outcomes.collect())
    }

    async fn replay(
        &self,
        partition: Partition,
        from: EntryNumber,
        max_bytes: usize,
    ) -> Result<Vec<Entry>> {
        let state = self.state.lock();
        let mut bytes = 0;
        let log = state.partitions.get(&partition).map(|held| &held.log);
        let entries = log.into_iter().flat_map(|log| log.range(from..));
        let page = entries.map(|(_, entry)| entry).take_while(|entry| {
            let fits = bytes == 0 || bytes + entry.weight() <= max_bytes;
            bytes += entry.weight().max(1);
            fits
        });
        Ok(page.cloned().collect())
    }

    async fn flush(&self, flush: Flush) -> Result<()> {
        let mut state = self.state.lock();
        let held = state.held(flush.partition, flush.epoch)?;
        held.tables
            .retain(|(table, _), _| !flush.clears.contains(table));
        for change in flush.rows {
            let key = (change.table, change.key);
            match change.value {
                Some(value) => held.tables.insert(key, value),
                None => held.tables.remove(&key),
            };
        }
        for (stream, first) in flush.trims {
            if let Some(batches) = held.streams.get_mut(&stream) {
                batches.retain(|_, batch| batch.next() > first);
            }
        }
        held.meta = flush.meta;
        held.flushed = held.flushed.max(flush.up_to);
        held.log.retain(|number, _| *number > flush.up_to);
        Ok(())
    }

    async fn get(&self, partition: Partition, table: TableId, key: &[u8]) -> Result<Option<Bytes>> {
        let state = self.state.lock();
        let key = (table, Bytes::copy_from_slice(key));
        let held = state.partitions.get(&partition);
        Ok(held.and_then(|held| held.tables.get(&key).cloned()))
    }

    async fn scan(
        &self,
        partition: Partition,
        table: TableId,
        range: Scan,
    ) -> Result<Vec<TableRow>> {
        let state = self.state.lock();
        let Some(held) = state.partitions.get(&partition) else {
            return Ok(Vec::new());
        };
        let from = match range.from {
            Bound::Included(key) => Bound::Included((table, key)),
            Bound::Excluded(key) => Bound::Excluded((table, key)),
            Bound::Unbounded => Bound::Included((table, Bytes::new())),
        };
        let is_inside = |key: &Bytes| match &range.to {
            Bound::Included(to) => key <= to,
            Bound::Excluded(to) => key < to,
            Bound::Unbounded => true,
        };
        let rows = held.tables.range((from, Bound::Unbounded));
        let rows = rows.take_while(|((t, key), _)| *t == table && is_inside(key));
        let rows = rows.map(|((_, key), value)| TableRow {
            key: key.clone(),
            value: value.clone(),
        });
        Ok(rows.take(range.limit).collect())
    }

    async fn read_events(
        &self,
        partition: Partition,
        stream: StreamId,
        from: ReadPosition,
        max_bytes: usize,
    ) -> Result<Vec<EventBatch>> {
        let state = self.state.lock();
        let held = state.partitions.get(&partition);
        let batches = held.and_then(|held| held.streams.get(&stream));
        let batches = batches.into_iter().flat_map(BTreeMap::values);
        let mut bytes = 0;
        let page = batches
            .skip_while(|batch| from.is_past(batch))
            .take_while(|batch| {
                let fits = bytes == 0 || bytes + batch.weight() <= max_bytes;
                bytes += batch.weight();
                fits
            });
        Ok(page.cloned().collect())
    }

    async fn cas(&self, key: &str, expect: u64, value: Bytes) -> Result<CasOutcome> {
        let mut state = self.state.lock();
        let version = match state.records.next_version(key, expect) {
            Ok(version) => version,
            Err(conflict) => return Ok(conflict),
        };
        state.records.insert(key.to_string(), version, value);
        drop(state);
        self.wake.send_modify(|count| *count += 1);
        Ok(CasOutcome::Done(version))
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Record>> {
        Ok(self.state.lock().records.list(prefix))
    }

    fn watch(&self) -> watch::Receiver<u64> {
        self.wake.subscribe()
    }
}

impl State {
    fn append(&mut self, entry: &Entry) -> Outcome {
        let Some(held) = self.partitions.get_mut(&entry.partition) else {
            return Outcome::Fenced;
        };
        if held.epoch != entry.epoch || held.last.next() != entry.number {
            return Outcome::Fenced;
        }
        held.last = entry.number;
        held.last_hash = entry.hash();
        for batch in &entry.batches {
            let batches = held.streams.entry(batch.stream).or_default();
            batches.insert(batch.first, batch.clone());
        }
        held.log.insert(entry.number, entry.clone());
        Outcome::Committed
    }

    fn held(&mut self, partition: Partition, epoch: Epoch) -> Result<&mut MemoryPartition> {
        let held = self.partitions.entry(partition).or_default();
        if held.epoch == epoch {
            return Ok(held);
        }
        let epoch = held.epoch;
        Err(Error::new(ErrorKind::Fenced { partition, epoch }))
    }
}

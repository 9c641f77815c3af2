//! An engine that replicates entries in memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use steadfast_core::clock::Clock;
use steadfast_core::id::{EntryNumber, Epoch, Owner, Partition, StreamId, TableId};
use steadfast_core::task::name_task;
use steadfast_storage::engine::{
    AcquireOutcome, CasOutcome, Engine, Entry, EventBatch, Flush, Outcome, ReadPosition, Record,
    Scan, TableRow,
};
use steadfast_storage::memory::MemoryEngine;
use steadfast_storage::{Error, NodeLease, Result};
use tokio::sync::watch;

use super::claim::{self, ClaimedPartition};
use super::leader_state::LeaderState;
use super::message::{ReplicationEnvelope, Response};
use super::peers::{ClusterPeers, ReplicationContext};
use super::reconcile;
use super::replica_set::ReplicaSet;
use crate::error::ErrorKind;

/// How often a commit that waits for replicas checks the lease.
const LOOK: Duration = Duration::from_millis(100);

/// What [`ReplicatedMemory`] is built from.
pub struct ReplicationSetup {
    /// This node, with its incarnation.
    pub me: Owner,
    /// The engine that stores the replica-set records.
    pub durable: Arc<dyn Engine>,
    pub peers: Arc<dyn ClusterPeers>,
    pub clock: Arc<dyn Clock>,
    /// Nothing is acknowledged after its end.
    pub lease: Option<NodeLease>,
}

/// An engine in memory that acknowledges an entry once a majority of the holders has it.
pub struct ReplicatedMemory {
    common: Arc<ReplicationContext>,
    seats: Mutex<BTreeMap<Partition, Arc<LeaderState>>>,
    /// Records whose epoch this node has raised and not used yet.
    raised: Mutex<HashMap<Partition, u64>>,
}

impl ReplicatedMemory {
    /// Holds nothing yet.
    pub fn new(setup: ReplicationSetup) -> Self {
        let common = ReplicationContext {
            me: setup.me,
            local: MemoryEngine::with_clock(Arc::clone(&setup.clock)),
            durable: setup.durable,
            peers: setup.peers,
            clock: setup.clock,
            lease: setup.lease,
            sessions: AtomicU64::new(0),
        };
        Self {
            common: Arc::new(common),
            seats: Mutex::default(),
            raised: Mutex::default(),
        }
    }

    /// Handles an encoded message of a partition's owner; returns the encoded response.
    pub fn handle_message(&self, letter: Bytes) -> Option<Bytes> {
        let letter = ReplicationEnvelope::decode(letter).ok()?;
        let (partition, epoch) = (letter.partition, letter.epoch);
        let answer = claim::handle(&self.common, letter);
        let seat = self.seats.lock().get(&partition).cloned();
        if let Some(seat) = seat.filter(|seat| seat.epoch < epoch)
            && !matches!(answer, Response::Deposed(_))
        {
            seat.stop();
        }
        Some(answer.encode())
    }

    /// The partitions of a space that have a replica-set record.
    pub async fn known_partitions(&self, space: u16) -> Result<Vec<u16>> {
        ReplicaSet::all(&*self.common.durable, space).await
    }

    /// The replica set of a partition that this node owns.
    pub fn replica_set(&self, partition: Partition) -> Option<ReplicaSet> {
        let seat = self.seats.lock().get(&partition).cloned()?;
        let state = seat.state.lock();
        (!state.is_deposed).then(|| state.replica_set.clone())
    }

    /// Gives up ownership of a partition; its content stays here as a replica.
    pub fn resign(&self, partition: Partition) {
        if let Some(seat) = self.seats.lock().remove(&partition) {
            seat.stop();
        }
    }

    /// Waits until a node that is not leaving holds a replica of a partition, if there is
    /// such a node.
    pub async fn wait_for_replica(&self, partition: Partition) {
        let Some(seat) = self.seats.lock().get(&partition).cloned() else {
            return;
        };
        let mut changes = seat.changes();
        loop {
            changes.mark_unchanged();
            let mut others = self.common.peers.staying();
            others.retain(|node| *node != self.common.me);
            {
                let state = seat.state.lock();
                let is_shared = others.iter().any(|n| state.replica_set.holders.contains(n));
                if others.is_empty() || is_shared || state.is_deposed {
                    return;
                }
            }
            let _ = tokio::time::timeout(LOOK, changes.changed()).await;
        }
    }

    /// Waits until an entry is replicated to a majority.
    async fn held(&self, seat: &LeaderState, number: EntryNumber) -> Outcome {
        let mut changes = seat.changes();
        loop {
            changes.mark_unchanged();
            {
                let state = seat.state.lock();
                // Only the next owner knows whether the entry survived.
                if state.is_deposed || !self.common.has_lease() {
                    return Outcome::Unknown;
                }
                if state.is_replicated(self.common.me, number) {
                    return Outcome::Committed;
                }
            }
            let _ = tokio::time::timeout(LOOK, changes.changed()).await;
        }
    }

    /// Writes an entry locally and queues it for all holders.
    fn write(&self, entry: &Entry) -> (Outcome, Option<Arc<LeaderState>>) {
        let seat = self.seats.lock().get(&entry.partition).cloned();
        let Some(seat) = seat.filter(|seat| seat.epoch == entry.epoch) else {
            return (Outcome::Fenced, None);
        };
        let mut state = seat.state.lock();
        if state.is_deposed || !self.common.has_lease() {
            return (Outcome::Fenced, None);
        }
        let outcome = self.common.local.write(entry);
        if outcome == Outcome::Committed {
            state.streams.iter_mut().for_each(|line| line.push(entry));
        }
        drop(state);
        (outcome, Some(seat))
    }

    /// The record in the epoch that this node has raised, or the refusal.
    async fn raise(
        &self,
        partition: Partition,
        expect: Epoch,
    ) -> Result<std::result::Result<(u64, ReplicaSet), AcquireOutcome>> {
        let common = &self.common;
        let refused = |epoch, owner| Ok(Err(AcquireOutcome::Refused { epoch, owner }));
        let (version, charter) = ReplicaSet::find(&*common.durable, partition).await?;
        if charter.epoch != expect {
            return refused(charter.epoch, charter.owner);
        }
        if !common.peers.may_own(partition) {
            // The owner of the main space's partition is to own this one too.
            let unowned = Owner {
                node: u32::MAX,
                incarnation: 0,
            };
            return refused(charter.epoch, Some(unowned));
        }
        if self.raised.lock().remove(&partition) == Some(version) {
            return Ok(Ok((version, charter)));
        }
        let epoch = charter.epoch;
        match claim::raise_epoch(common, partition, (version, charter)).await? {
            Some(raised) => Ok(Ok(raised)),
            None => refused(epoch, None),
        }
    }
}

impl Drop for ReplicatedMemory {
    fn drop(&mut self) {
        for seat in self.seats.lock().values() {
            seat.stop();
        }
    }
}

#[async_trait]
impl Engine for ReplicatedMemory {
    async fn acquire(
        &self,
        partition: Partition,
        _: Owner,
        expect: Epoch,
    ) -> Result<AcquireOutcome> {
        let raised = match self.raise(partition, expect).await? {
            Ok(raised) => raised,
            Err(refused) => return Ok(refused),
        };
        self.resign(partition);
        let version = raised.0;
        let claimed = claim::claim(&self.common, partition, raised).await;
        let is_early = |error: &Error| {
            matches!(
                error.specific(),
                Some(ErrorKind::ReplicasUnavailable { .. })
            )
        };
        if claimed.as_ref().is_err_and(is_early) {
            // No owner has begun in this epoch, so the claim can be retried.
            self.raised.lock().insert(partition, version);
        }
        let ClaimedPartition {
            leader: seat,
            tenure,
        } = claimed?;
        let tending = tokio::spawn(name_task(reconcile::run(
            Arc::clone(&self.common),
            Arc::clone(&seat),
        )));
        seat.adopt_task(tending.abort_handle());
        let before = self.seats.lock().insert(partition, seat);
        if let Some(before) = before {
            before.stop();
        }
        Ok(AcquireOutcome::Granted(tenure))
    }

    /// The next owner needs no notice: it follows the partition of the main space.
    async fn release(&self, partition: Partition, _: Epoch) -> Result<()> {
        self.resign(partition);
        Ok(())
    }

    /// The lease is that of the node; the main space's engine renews it.
    async fn renew(&self, _: Owner, _: Duration) -> Result<()> {
        Ok(())
    }

    async fn append(&self, group: &[Entry]) -> Result<Vec<Outcome>> {
        if let Some(entry) = group.iter().find(|entry| !entry.batches.is_empty()) {
            return Err(Error::new(ErrorKind::NotMirrored {
                partition: entry.partition,
            }));
        }
        let written: Vec<_> = group.iter().map(|entry| self.write(entry)).collect();
        let mut outcomes = Vec::with_capacity(group.len());
        for (entry, (outcome, seat)) in group.iter().zip(written) {
            outcomes.push(match (outcome, seat) {
                (Outcome::Committed, Some(seat)) => self.held(&seat, entry.number).await,
                (outcome, _) => outcome,
            });
        }
        Ok(outcomes)
    }

    async fn replay(
        &self,
        partition: Partition,
        from: EntryNumber,
        max_bytes: usize,
    ) -> Result<Vec<Entry>> {
        self.common.local.replay(partition, from, max_bytes).await
    }

    async fn flush(&self, flush: Flush) -> Result<()> {
        self.common.local.flush(flush).await
    }

    async fn get(&self, partition: Partition, table: TableId, key: &[u8]) -> Result<Option<Bytes>> {
        self.common.local.get(partition, table, key).await
    }

    async fn scan(
        &self,
        partition: Partition,
        table: TableId,
        range: Scan,
    ) -> Result<Vec<TableRow>> {
        self.common.local.scan(partition, table, range).await
    }

    async fn read_events(
        &self,
        partition: Partition,
        stream: StreamId,
        from: ReadPosition,
        max_bytes: usize,
    ) -> Result<Vec<EventBatch>> {
        let local = &self.common.local;
        local.read_events(partition, stream, from, max_bytes).await
    }

    async fn cas(&self, key: &str, expect: u64, value: Bytes) -> Result<CasOutcome> {
        self.common.durable.cas(key, expect, value).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Record>> {
        self.common.durable.list(prefix).await
    }

    /// Each partition has its own holders and waits for no others.
    fn shard(&self, partition: Partition) -> u16 {
        partition.index()
    }

    fn watch(&self) -> watch::Receiver<u64> {
        self.common.durable.watch()
    }
}

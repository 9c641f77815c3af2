//! Replicas of partitions that other nodes own.
//!
//! An owner's entries are applied to the rows at once, so a replica has no log. A full
//! copy is received beside the current one, and replaces it when it is complete.

use std::ops::Bound;

use bytes::Bytes;
use steadfast_core::id::{EntryNumber, Epoch, Owner, Partition, TableId};

use super::{MemoryEngine, MemoryPartition};
use crate::engine::{Entry, Outcome, Tenure};
use crate::replica_content::{
    CopiedRow, CopyBase, ReplicaError, ReplicaMeta, ReplicaPosition, StagedCopy,
};

impl MemoryEngine {
    /// Refuses earlier epochs from now on; returns the position of a complete replica.
    pub fn fence(
        &self,
        partition: Partition,
        epoch: Epoch,
    ) -> Result<Option<ReplicaPosition>, ReplicaError> {
        let mut state = self.state.lock();
        let held = state.partitions.entry(partition).or_default();
        held.reach(epoch)?;
        held.rest();
        Ok(held.position())
    }

    /// Confirms the current content as the one from which the owner of `epoch` begins.
    pub fn adopt(
        &self,
        partition: Partition,
        epoch: Epoch,
        base: ReplicaPosition,
    ) -> Result<(), ReplicaError> {
        let mut state = self.state.lock();
        let held = state.partitions.entry(partition).or_default();
        held.reach(epoch)?;
        held.rest();
        let here = held.position().ok_or(ReplicaError::Strange)?;
        let has_adopted = here.epoch == epoch && here.number == base.number;
        if here != base && !has_adopted {
            return Err(ReplicaError::Strange);
        }
        held.accepted = epoch;
        Ok(())
    }

    /// Begins a full copy; the current content stays until it is complete.
    pub fn begin(
        &self,
        partition: Partition,
        epoch: Epoch,
        session: u64,
    ) -> Result<(), ReplicaError> {
        let mut state = self.state.lock();
        let held = state.partitions.entry(partition).or_default();
        held.reach(epoch)?;
        let asked = (epoch, session);
        match &held.staging {
            // The message is late, or its response was lost.
            Some(own) if (own.epoch, own.session) > asked => return Err(ReplicaError::Strange),
            Some(own) if (own.epoch, own.session) == asked => return Ok(()),
            _ => {}
        }
        held.staging = Some(StagedCopy {
            epoch,
            session,
            next: 1,
            rows: Default::default(),
        });
        Ok(())
    }

    /// Adds rows to a full copy.
    pub fn stage(
        &self,
        partition: Partition,
        epoch: Epoch,
        (session, part): (u64, u64),
        rows: &[CopiedRow],
    ) -> Result<(), ReplicaError> {
        let mut state = self.state.lock();
        let held = state.partitions.entry(partition).or_default();
        held.reach(epoch)?;
        let staging = held.staging(epoch, session)?;
        if part < staging.next {
            return Ok(());
        }
        if part > staging.next {
            return Err(ReplicaError::Strange);
        }
        staging.next += 1;
        let owned = |bytes: &Bytes| Bytes::copy_from_slice(bytes);
        let rows = rows.iter();
        let rows = rows.map(|(table, key, value)| ((*table, owned(key)), owned(value)));
        staging.rows.extend(rows);
        Ok(())
    }

    /// Completes a full copy, which replaces the current content.
    pub fn complete(
        &self,
        partition: Partition,
        epoch: Epoch,
        (session, part): (u64, u64),
        number: EntryNumber,
        hash: u64,
        meta: Bytes,
    ) -> Result<(), ReplicaError> {
        let mut state = self.state.lock();
        let held = state.partitions.entry(partition).or_default();
        held.reach(epoch)?;
        if held.done == (epoch, session) {
            // Its answer was lost.
            return Ok(());
        }
        let folded = ReplicaMeta::of(meta).map_err(|_| ReplicaError::Strange)?;
        if held.staging(epoch, session)?.next != part {
            return Err(ReplicaError::Strange);
        }
        let staging = held.staging.take().ok_or(ReplicaError::Strange)?;
        held.tables = staging.rows;
        held.log.clear();
        held.streams.clear();
        (held.last, held.flushed, held.last_hash) = (number, number, hash);
        held.folded = Some(folded);
        held.accepted = epoch;
        held.done = (epoch, session);
        Ok(())
    }

    /// Applies entries of the owner, except those that are applied already.
    pub fn follow(
        &self,
        partition: Partition,
        epoch: Epoch,
        entries: &[(EntryNumber, Bytes)],
    ) -> Result<(), ReplicaError> {
        let mut state = self.state.lock();
        let held = state.partitions.entry(partition).or_default();
        held.reach(epoch)?;
        if held.accepted != epoch || held.owner.is_some() {
            return Err(ReplicaError::Strange);
        }
        for (number, body) in entries {
            if *number <= held.last {
                continue;
            }
            if *number != held.last.next() {
                return Err(ReplicaError::Strange);
            }
            let entry = Entry {
                partition,
                epoch,
                number: *number,
                body: body.clone(),
                batches: Vec::new(),
            };
            let folded = held.folded.get_or_insert_default();
            let done = folded.fold(&mut held.tables, entry.body.clone());
            if done.is_err() {
                // It was applied in part: only a full copy helps.
                held.accepted = Epoch(0);
                return Err(ReplicaError::Strange);
            }
            (held.last, held.flushed) = (*number, *number);
            held.last_hash = entry.hash();
        }
        Ok(())
    }

    /// Rows after a key, for a copy to another node, up to about `max_bytes`; empty at the
    /// end.
    pub fn page(
        &self,
        partition: Partition,
        after: Option<(TableId, Bytes)>,
        max_bytes: usize,
    ) -> Vec<CopiedRow> {
        let state = self.state.lock();
        let Some(held) = state.partitions.get(&partition) else {
            return Vec::new();
        };
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut bytes = 0;
        let rows = held.tables.range((from, Bound::Unbounded));
        let rows = rows.take_while(|((_, key), value)| {
            let fits = bytes < max_bytes;
            bytes += key.len() + value.len() + 16;
            fits
        });
        rows.map(|((table, key), value)| (*table, key.clone(), value.clone()))
            .collect()
    }

    /// Where a copy to another node begins.
    pub fn base(&self, partition: Partition) -> CopyBase {
        let mut state = self.state.lock();
        let held = state.partitions.entry(partition).or_default();
        let hash = if held.flushed == held.last {
            held.last_hash
        } else {
            0
        };
        CopyBase {
            number: held.flushed,
            hash,
            meta: held.meta(),
            log: held.log.values().cloned().collect(),
        }
    }

    /// Drops the content: the partition begins anew in an epoch.
    pub fn empty(&self, partition: Partition, epoch: Epoch) -> Result<(), ReplicaError> {
        let mut state = self.state.lock();
        let held = state.partitions.entry(partition).or_default();
        held.reach(epoch)?;
        *held = MemoryPartition {
            epoch,
            accepted: epoch,
            ..MemoryPartition::default()
        };
        Ok(())
    }

    /// Drops a replica that the owner does not need, unless a later copy was begun.
    pub fn forget(
        &self,
        partition: Partition,
        epoch: Epoch,
        session: u64,
    ) -> Result<(), ReplicaError> {
        let mut state = self.state.lock();
        let held = state.partitions.entry(partition).or_default();
        held.reach(epoch)?;
        let staging = held.staging.as_ref();
        let begun = staging.map_or(held.done, |own| (own.epoch, own.session));
        if (epoch, session) < begun.max(held.done) || held.owner.is_some() {
            return Err(ReplicaError::Strange);
        }
        *held = MemoryPartition {
            epoch,
            done: (epoch, session),
            ..MemoryPartition::default()
        };
        Ok(())
    }

    /// Makes this node the owner of the local content, in its own epoch.
    pub fn grant(
        &self,
        partition: Partition,
        owner: Owner,
        epoch: Epoch,
    ) -> Result<Tenure, ReplicaError> {
        let mut state = self.state.lock();
        let held = state.partitions.entry(partition).or_default();
        held.reach(epoch)?;
        held.rest();
        held.meta = held.meta();
        held.folded = None;
        held.staging = None;
        held.accepted = epoch;
        held.owner = Some(owner);
        Ok(Tenure {
            epoch,
            last: held.last,
            last_hash: held.last_hash,
            flushed: held.flushed,
            meta: held.meta.clone(),
        })
    }

    /// Writes one entry of the owner.
    pub fn write(&self, entry: &Entry) -> Outcome {
        self.state.lock().append(entry)
    }

    /// The last local entry.
    pub fn last(&self, partition: Partition) -> EntryNumber {
        let state = self.state.lock();
        let held = state.partitions.get(&partition);
        held.map_or(EntryNumber(0), |held| held.last)
    }
}

impl MemoryPartition {
    /// Refuses messages of earlier epochs.
    fn reach(&mut self, epoch: Epoch) -> Result<(), ReplicaError> {
        if epoch < self.epoch {
            return Err(ReplicaError::Deposed(self.epoch));
        }
        if epoch > self.epoch {
            self.epoch = epoch;
            self.owner = None;
            self.staging = None;
        }
        Ok(())
    }

    fn position(&self) -> Option<ReplicaPosition> {
        (self.accepted != Epoch(0)).then_some(ReplicaPosition {
            epoch: self.accepted,
            number: self.last,
        })
    }

    fn staging(&mut self, epoch: Epoch, session: u64) -> Result<&mut StagedCopy, ReplicaError> {
        let staging = self.staging.as_mut().ok_or(ReplicaError::Strange)?;
        if (staging.epoch, staging.session) == (epoch, session) {
            Ok(staging)
        } else {
            Err(ReplicaError::Strange)
        }
    }

    fn meta(&self) -> Bytes {
        let folded = self.folded.as_ref();
        folded.map_or_else(|| self.meta.clone(), ReplicaMeta::meta)
    }

    /// Applies the log of a former owner to the rows.
    fn rest(&mut self) {
        if self.log.is_empty() {
            return;
        }
        let folded = ReplicaMeta::of(self.meta());
        let mut folded = folded.expect("written by a flush or by us");
        for entry in std::mem::take(&mut self.log).into_values() {
            let done = folded.fold(&mut self.tables, entry.body);
            done.expect("encoded by the overlay");
        }
        self.flushed = self.last;
        self.folded = Some(folded);
    }
}

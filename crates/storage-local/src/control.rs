//! The control state of the local engine.
//!
//! It holds fences, the index of the unflushed log, the ends of streams, and the
//! cluster records. It changes only when a group is durable, so whatever is copied
//! from here into the tables is covered by the log. Its rows in the tables may be
//! newer than the place where replay starts; redo is absolute, so that does not matter.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::clock::Clock;
use steadfast_core::codec::{ByteReader, DecodeError, put_bytes, put_varint};
use steadfast_core::id::{EntryNumber, Epoch, Offset, Owner, Partition, Sequence, StreamId};
use steadfast_storage::cluster_records::ClusterRecords;
use steadfast_storage::engine::Tenure;
use steadfast_storage::owner_leases::OwnerLeases;

use crate::record::{LogItem, LoggedBatch, LoggedEntry};
use crate::segment::{LogRange, Segment};

/// All partitions and records of a folder.
pub(crate) struct ControlState {
    pub(crate) leases: OwnerLeases,
    pub(crate) partitions: BTreeMap<Partition, Fence>,
    pub(crate) records: ClusterRecords,
    /// Keys of records whose rows are stale.
    pub(crate) dirty_records: BTreeSet<String>,
    /// The group that is written next.
    pub(crate) next_group: u64,
}

/// One partition.
#[derive(Default)]
pub(crate) struct Fence {
    pub(crate) epoch: Epoch,
    pub(crate) owner: Option<Owner>,
    pub(crate) last: EntryNumber,
    pub(crate) last_hash: u64,
    pub(crate) flushed: EntryNumber,
    pub(crate) meta: Bytes,
    pub(crate) unflushed: VecDeque<UnflushedEntry>,
    pub(crate) streams: BTreeMap<StreamId, StreamControl>,
    /// Its row in the tables is stale.
    pub(crate) is_dirty: bool,
}

/// An entry that is only in the log.
#[derive(Clone, Debug)]
pub(crate) struct UnflushedEntry {
    pub(crate) number: EntryNumber,
    pub(crate) group: u64,
    pub(crate) item: LogRange,
}

/// What a flush took out of the index.
pub(crate) struct DroppedEntries {
    _entries: VecDeque<UnflushedEntry>,
    _batches: Vec<VecDeque<PendingBatch>>,
}

fn take_front<T>(queue: &mut VecDeque<T>, count: usize) -> VecDeque<T> {
    let rest = queue.split_off(count);
    std::mem::replace(queue, rest)
}

/// One event stream.
#[derive(Default)]
pub(crate) struct StreamControl {
    pub(crate) first: Sequence,
    pub(crate) next: Sequence,
    pub(crate) end: Offset,
    /// Batches whose bytes are only in the log, in order.
    pub(crate) pending: VecDeque<PendingBatch>,
    pub(crate) is_dirty: bool,
}

/// A batch that still has to be copied to its stream's file.
#[derive(Clone, Debug)]
pub(crate) struct PendingBatch {
    pub(crate) entry: EntryNumber,
    pub(crate) batch: LoggedBatch,
    pub(crate) bytes: LogRange,
}

impl ControlState {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            leases: OwnerLeases::new(clock),
            partitions: BTreeMap::new(),
            records: ClusterRecords::default(),
            dirty_records: BTreeSet::new(),
            next_group: 1,
        }
    }

    /// Applies an item of a durable group. `payload` is where the group's payload
    /// starts in `segment`, `range` where the item is in it.
    pub(crate) fn apply(
        &mut self,
        item: LogItem,
        group: u64,
        segment: &Arc<Segment>,
        payload: u64,
        range: std::ops::Range<u32>,
    ) {
        match item {
            LogItem::Entry(entry) => {
                let place = LogRange {
                    segment: Arc::clone(segment),
                    at: payload + u64::from(range.start),
                    length: range.end - range.start,
                };
                self.fence(entry.partition)
                    .entry(entry, group, place, payload);
            }
            LogItem::Acquire {
                partition,
                epoch,
                owner,
            } => {
                let fence = self.fence(partition);
                fence.epoch = epoch;
                fence.owner = Some(owner);
                fence.is_dirty = true;
            }
            LogItem::Release { partition, .. } => {
                let fence = self.fence(partition);
                fence.owner = None;
                fence.is_dirty = true;
            }
            LogItem::Record {
                key,
                version,
                value,
            } => {
                self.dirty_records.insert(key.clone());
                self.records.insert(key, version, value);
            }
        }
    }

    pub(crate) fn fence(&mut self, partition: Partition) -> &mut Fence {
        self.partitions.entry(partition).or_default()
    }

    /// Where every stream begins and ends.
    pub(crate) fn ends(&self) -> HashMap<(Partition, StreamId), (Sequence, Offset)> {
        let all = self.partitions.iter();
        let all =
            all.flat_map(|(p, fence)| fence.streams.iter().map(move |(s, ends)| (*p, *s, ends)));
        all.map(|(partition, stream, ends)| ((partition, stream), (ends.first, ends.end)))
            .collect()
    }

    /// Marks every row as stale.
    pub(crate) fn make_dirty(&mut self) {
        for fence in self.partitions.values_mut() {
            fence.is_dirty = true;
            for ends in fence.streams.values_mut() {
                ends.is_dirty = true;
            }
        }
        self.dirty_records = self.records.keys().cloned().collect();
    }

    /// The first group that is needed after a restart.
    pub(crate) fn mark(&self) -> u64 {
        let oldest = self.partitions.values();
        let oldest = oldest.filter_map(|fence| fence.unflushed.front());
        let oldest = oldest.map(|entry| entry.group).min();
        oldest.unwrap_or(self.next_group)
    }
}

impl Fence {
    pub(crate) fn tenure(&self) -> Tenure {
        Tenure {
            epoch: self.epoch,
            last: self.last,
            last_hash: self.last_hash,
            flushed: self.flushed,
            meta: self.meta.clone(),
        }
    }

    /// Forgets what a flush has put into the tables and the streams' files. What is
    /// answered may be large: drop it without the lock.
    pub(crate) fn flushed(&mut self, up_to: EntryNumber) -> DroppedEntries {
        self.flushed = self.flushed.max(up_to);
        let covered = self.unflushed.partition_point(|e| e.number <= up_to);
        let entries = take_front(&mut self.unflushed, covered);
        let streams = self.streams.values_mut().map(|ends| {
            let covered = ends.pending.partition_point(|p| p.entry <= up_to);
            take_front(&mut ends.pending, covered)
        });
        DroppedEntries {
            _batches: streams.filter(|batches| !batches.is_empty()).collect(),
            _entries: entries,
        }
    }

    fn entry(&mut self, entry: LoggedEntry, group: u64, item: LogRange, payload: u64) {
        self.last = entry.number;
        self.last_hash = entry.hash;
        self.is_dirty = true;
        for batch in entry.batches {
            let ends = self.streams.entry(batch.stream).or_default();
            ends.next = batch.next();
            ends.end = batch.end();
            ends.is_dirty = true;
            if let Some(place) = batch.inline {
                let bytes = LogRange {
                    segment: Arc::clone(&item.segment),
                    at: payload + u64::from(place),
                    length: batch.length,
                };
                ends.pending.push_back(PendingBatch {
                    entry: entry.number,
                    batch,
                    bytes,
                });
            }
        }
        self.unflushed.push_back(UnflushedEntry {
            number: entry.number,
            group,
            item,
        });
    }

    /// The partition's row in the tables, once everything up to `flushed` is in.
    pub(crate) fn encode(&self, flushed: EntryNumber, meta: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.epoch.0);
        put_varint(&mut out, self.last.0);
        out.extend_from_slice(&self.last_hash.to_le_bytes());
        put_varint(&mut out, flushed.0);
        put_bytes(&mut out, meta);
        if let Some(owner) = self.owner {
            put_varint(&mut out, u64::from(owner.node));
            out.extend_from_slice(&owner.incarnation.to_le_bytes());
        }
        out
    }

    /// Reads what [`Fence::encode`] wrote.
    pub(crate) fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        let mut fence = Self {
            epoch: Epoch(reader.varint()?),
            last: EntryNumber(reader.varint()?),
            last_hash: reader.u64_le()?,
            flushed: EntryNumber(reader.varint()?),
            meta: reader.bytes()?,
            ..Self::default()
        };
        if !reader.is_empty() {
            fence.owner = Some(Owner {
                node: reader.varint_u32()?,
                incarnation: reader.u128_le()?,
            });
        }
        Ok(fence)
    }
}

impl StreamControl {
    /// The stream's row in the tables.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.first.0);
        put_varint(&mut out, self.next.0);
        put_varint(&mut out, self.end.0);
        out
    }

    /// Reads what [`StreamControl::encode`] wrote.
    pub(crate) fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        Ok(Self {
            first: Sequence(reader.varint()?),
            next: Sequence(reader.varint()?),
            end: Offset(reader.varint()?),
            ..Self::default()
        })
    }
}

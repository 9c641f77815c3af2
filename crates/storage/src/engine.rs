//! The storage seam: a fenced log with tables beside it.
//!
//! Every engine has two parts: a commit log, whose acknowledgement is the only
//! guarantee, and tables, which are filled from the log asynchronously. The layers above
//! this trait (overlay, group commit, snapshots) exist once for all engines; the layers
//! below it know nothing of transactions.
//!
//! Invariants that `tests/seam/mod.rs` demands of every engine:
//!
//! - An entry is committed only if its epoch is the partition's epoch and its
//!   number follows the last one. The check is part of the durable write.
//! - One group may hold entries of many partitions. Each is committed or refused
//!   by itself; a refused neighbour changes nothing for the others.
//! - `Committed` means durable. `Unknown` means that only [`Engine::acquire`]
//!   with the old epoch can tell, by last number and hash.
//! - `flush` is fenced too, and never makes anything visible that was not
//!   committed before.

use std::ops::Bound;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use steadfast_core::clock::Timestamp;
use steadfast_core::id::{
    EntryNumber, Epoch, Offset, Owner, Partition, Sequence, StreamId, TableId,
};
use tokio::sync::watch;
use xxhash_rust::xxh3::Xxh3;

use crate::error::Result;

/// A storage engine. All positions and numbers come from the caller.
#[async_trait]
pub trait Engine: Send + Sync + 'static {
    /// Acquires a partition: sets epoch + 1 if its epoch is still `expect` and no other
    /// live owner has it. A durable barrier: what the answer says stays true.
    async fn acquire(
        &self,
        partition: Partition,
        owner: Owner,
        expect: Epoch,
    ) -> Result<AcquireOutcome>;

    /// Releases a partition, so that the next owner need not wait for the lease.
    async fn release(&self, partition: Partition, epoch: Epoch) -> Result<()>;

    /// Keeps an owner alive for `ttl` from now. A lease is a hint: it delays
    /// other owners, but only the epoch decides what is committed.
    async fn renew(&self, owner: Owner, ttl: Duration) -> Result<()>;

    /// Writes a group in one durable step and answers per entry, in order. An
    /// error means that nothing of the group was written or ever will be.
    async fn append(&self, group: &[Entry]) -> Result<Vec<Outcome>>;

    /// Committed entries from `from` on, dense and in order, until about
    /// `max_bytes`; empty at the end of the log.
    async fn replay(
        &self,
        partition: Partition,
        from: EntryNumber,
        max_bytes: usize,
    ) -> Result<Vec<Entry>>;

    /// Folds committed changes into the tables and lets the log be trimmed.
    async fn flush(&self, flush: Flush) -> Result<()>;

    /// A row of the tables; unflushed changes are not visible.
    async fn get(&self, partition: Partition, table: TableId, key: &[u8]) -> Result<Option<Bytes>>;

    /// Rows of the tables in key order.
    async fn scan(
        &self,
        partition: Partition,
        table: TableId,
        range: Scan,
    ) -> Result<Vec<TableRow>>;

    /// The keys of those rows. An engine avoids reading the values if it can: a filter
    /// reads many keys and few values.
    async fn scan_keys(
        &self,
        partition: Partition,
        table: TableId,
        range: Scan,
    ) -> Result<Vec<Bytes>> {
        let rows = self.scan(partition, table, range).await?;
        Ok(rows.into_iter().map(|row| row.key).collect())
    }

    /// Committed batches from the one that holds `from` on, flushed or not, until
    /// about `max_bytes`, but at least one if there is one.
    async fn read_events(
        &self,
        partition: Partition,
        stream: StreamId,
        from: ReadPosition,
        max_bytes: usize,
    ) -> Result<Vec<EventBatch>>;

    /// Writes a cluster record if its version is `expect`; a missing record has
    /// version 0. Records are never deleted, so no version comes twice.
    async fn cas(&self, key: &str, expect: u64, value: Bytes) -> Result<CasOutcome>;

    /// Cluster records whose key starts with `prefix`, in key order.
    async fn list(&self, prefix: &str) -> Result<Vec<Record>>;

    /// Which of the engine's independent logs holds a partition; most have one. What is
    /// in different ones is not committed in one group, so that none waits for another.
    fn shard(&self, _partition: Partition) -> u16 {
        0
    }

    /// Changes when a cluster record or an owner may have changed. Wake-ups only,
    /// never data.
    fn watch(&self) -> watch::Receiver<u64>;
}

/// The answer to [`Engine::acquire`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcquireOutcome {
    /// The caller owns the partition from here on.
    Granted(Tenure),
    /// Refused; the current epoch and owner.
    Refused { epoch: Epoch, owner: Option<Owner> },
}

/// Where a new owner finds the partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenure {
    /// The epoch that every later call must carry.
    pub epoch: Epoch,
    /// The last committed entry.
    pub last: EntryNumber,
    /// Its hash, 0 if there is none.
    pub last_hash: u64,
    /// Entries up to this one are in the tables; replay the rest.
    pub flushed: EntryNumber,
    /// What the last flush left for its successor.
    pub meta: Bytes,
}

/// One partition's share of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub partition: Partition,
    pub epoch: Epoch,
    pub number: EntryNumber,
    /// Transactions, in the encoding of [`crate::EntryBody`]; opaque to the engine.
    pub body: Bytes,
    /// Event batches, beside the body so that an engine stores them its own way.
    pub batches: Vec<EventBatch>,
}

impl Entry {
    /// Identifies an entry among those of its number: over partition, number, body
    /// and batches, but not the epoch, because an entry that is sent again after an
    /// unknown outcome carries a newer one.
    pub fn hash(&self) -> u64 {
        let mut hash = Xxh3::new();
        hash.update(&self.partition.0.to_le_bytes());
        hash.update(&self.number.0.to_le_bytes());
        hash.update(&(self.body.len() as u64).to_le_bytes());
        hash.update(&self.body);
        for batch in &self.batches {
            hash.update(&batch.checksum().to_le_bytes());
        }
        hash.digest()
    }

    /// The size of the entry in bytes.
    pub fn weight(&self) -> usize {
        self.body.len() + self.batches.iter().map(EventBatch::weight).sum::<usize>()
    }
}

/// One publication: `count` events in one blob, one number after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventBatch {
    pub stream: StreamId,
    pub first: Sequence,
    pub offset: Offset,
    pub count: u32,
    pub time: Timestamp,
    pub bytes: Bytes,
    checksum: u32,
}

/// What a stored batch takes beside its bytes. Part of the stream's arithmetic on
/// every engine, because an offset is a place: `next = offset + 40 + length`.
pub const BATCH_HEADER_BYTES: usize = 40;

impl EventBatch {
    /// A publication at its offset.
    pub fn new(
        stream: StreamId,
        first: Sequence,
        offset: Offset,
        count: u32,
        time: Timestamp,
        bytes: Bytes,
    ) -> Self {
        let mut head = [0; 36];
        head[..4].copy_from_slice(&stream.0.to_le_bytes());
        head[4..12].copy_from_slice(&first.0.to_le_bytes());
        head[12..20].copy_from_slice(&offset.0.to_le_bytes());
        head[20..24].copy_from_slice(&count.to_le_bytes());
        head[24..32].copy_from_slice(&time.0.to_le_bytes());
        head[32..].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        Self {
            stream,
            first,
            offset,
            count,
            time,
            checksum: crc32c::crc32c_append(crc32c::crc32c(&head), &bytes),
            bytes,
        }
    }

    /// The sequence number after the batch's last event.
    pub fn next(&self) -> Sequence {
        self.first.plus(self.count)
    }

    /// The offset after the batch.
    pub fn end(&self) -> Offset {
        Offset(self.offset.0 + self.weight() as u64)
    }

    /// Header and bytes.
    pub fn weight(&self) -> usize {
        BATCH_HEADER_BYTES + self.bytes.len()
    }

    /// CRC32C over everything but the place in a file. It is needed several times on
    /// the way to the disk, so the batch carries it from the beginning.
    pub fn checksum(&self) -> u32 {
        self.checksum
    }
}

/// What became of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Durable.
    Committed,
    /// Refused for good: another epoch, or not the next number.
    Fenced,
    /// Durable or not: `acquire` with the old epoch tells.
    Unknown,
}

/// Changes of one partition up to one entry, ready for the tables.
#[derive(Clone, Debug)]
pub struct Flush {
    pub partition: Partition,
    pub epoch: Epoch,
    /// The last entry that is covered.
    pub up_to: EntryNumber,
    /// Tables that lose all their rows before `rows` are applied.
    pub clears: Vec<TableId>,
    /// Strictly ascending by table and key; `None` deletes.
    pub rows: Vec<FlushedRow>,
    /// Events before these numbers are no longer needed.
    pub trims: Vec<(StreamId, Sequence)>,
    /// For the next owner, in [`Tenure::meta`].
    pub meta: Bytes,
}

/// A row as a flush leaves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlushedRow {
    pub table: TableId,
    pub key: Bytes,
    pub value: Option<Bytes>,
}

/// A range of keys of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    pub from: Bound<Bytes>,
    pub to: Bound<Bytes>,
    /// Rows at most.
    pub limit: usize,
}

impl Scan {
    /// The whole table, `limit` rows at most.
    pub fn all(limit: usize) -> Self {
        Self {
            from: Bound::Unbounded,
            to: Bound::Unbounded,
            limit,
        }
    }
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRow {
    pub key: Bytes,
    pub value: Bytes,
}

/// Where to start reading a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadPosition {
    /// At the batch that holds this event, or the first one after it.
    Sequence(Sequence),
    /// At the batch that holds this byte, or the first one after it.
    Offset(Offset),
    /// At the first batch of this time or later.
    Time(Timestamp),
}

impl ReadPosition {
    /// Whether the batch ends before this place, so that reading skips it.
    pub fn is_past(self, batch: &EventBatch) -> bool {
        self.is_after(batch.next(), batch.end(), batch.time)
    }

    /// Whether a batch with this end and time lies before this place.
    pub fn is_after(self, next: Sequence, end: Offset, time: Timestamp) -> bool {
        match self {
            Self::Sequence(sequence) => next <= sequence,
            Self::Offset(offset) => end <= offset,
            Self::Time(start) => time < start,
        }
    }
}

/// The answer to [`Engine::cas`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CasOutcome {
    /// Written; the record has this version now.
    Done(u64),
    /// Another writer changed the record first; its current version and value.
    Conflict { version: u64, value: Option<Bytes> },
}

/// A cluster record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub key: String,
    pub version: u64,
    pub value: Bytes,
}

//! Restores a chain into an empty engine.
//!
//! Rows go straight into the tables, merged from all links, so each is written
//! once. Events are appended with the numbers, offsets and times that they had.
//! Then everything is read back from the engine and compared. LSNs, times and
//! sequence numbers go on where the backup ended; the store begins a new life.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use bytes::Bytes;
use futures_util::future::join_all;
use steadfast_core::clock::Timestamp;
use steadfast_core::id::{
    EntryNumber, Epoch, Lsn, Offset, Owner, Partition, Sequence, StreamId, TableId,
};
use steadfast_core::limits;
use steadfast_storage::body::{EntryBody, row_key, split_row_key};
use steadfast_storage::engine::{
    AcquireOutcome, CasOutcome, Engine, Entry, EventBatch, Flush, FlushedRow, Outcome,
    ReadPosition, Scan, TableRow,
};
use steadfast_storage::{Error, ErrorKind as StorageKind, Result, StreamHead, meta};
use tokio::sync::watch;

use crate::chain::BackupChain;
use crate::digest::{EventDigest, RowDigest};
use crate::error::ErrorKind;
use crate::folder::BackupFolder;
use crate::identity;
use crate::manifest::{Manifest, PartitionManifest};
use crate::progress::{BackupPhase, BackupProgress};
use crate::state_files;

/// What a restore brought back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// Partitions.
    pub partitions: usize,
    /// Rows.
    pub rows: u64,
    /// Events.
    pub events: u64,
    /// Bytes of rows and events.
    pub bytes: u64,
}

/// Restores a chain into an engine that has none of its partitions yet. Verify the
/// chain before. If this fails the engine holds some part of it: start again with
/// an empty one.
pub async fn restore(
    engine: &dyn Engine,
    owner: Owner,
    chain: &BackupChain,
    progress: &watch::Sender<BackupProgress>,
) -> Result<RestoreReport> {
    let manifest = chain.last();
    let mut heads = state_files::read_heads(chain.last_folder())?;
    progress.send_replace(BackupProgress {
        phase: BackupPhase::Writing,
        partitions: manifest.partitions.len(),
        ..BackupProgress::default()
    });
    let mut targets = Vec::new();
    let mut waiting = FlushBatch::default();
    for saved in &manifest.partitions {
        let partition = Partition(saved.partition);
        let mut target = Target {
            engine,
            folder: chain.last_folder(),
            partition,
            epoch: acquire(engine, owner, partition).await?,
            last: EntryNumber(0),
            heads: heads.remove(&partition).unwrap_or_default(),
            tables: BTreeSet::new(),
            digest: EventDigest::default(),
            progress,
        };
        let rest = target.rows(chain, saved).await?;
        target.events(chain).await?;
        waiting.add(target.last_flush(rest, saved));
        if waiting.bytes >= limits::RESTORE_FLUSH_BYTES {
            waiting.write(engine).await?;
        }
        targets.push(target);
        progress.send_modify(|progress| progress.done += 1);
    }
    waiting.write(engine).await?;
    let restored = compare(&targets, manifest).await?;
    records(engine, chain.last_folder()).await?;
    Ok(restored)
}

/// Last flushes of restored partitions, collected: an engine may write them as one, and
/// there may be many small partitions.
#[derive(Default)]
struct FlushBatch {
    flushes: Vec<Flush>,
    bytes: usize,
}

impl FlushBatch {
    fn add(&mut self, flush: Flush) {
        let size =
            |change: &FlushedRow| change.key.len() + change.value.as_ref().map_or(0, Bytes::len);
        self.bytes += flush.rows.iter().map(size).sum::<usize>();
        self.flushes.push(flush);
    }

    async fn write(&mut self, engine: &dyn Engine) -> Result<()> {
        self.bytes = 0;
        let flushes = std::mem::take(&mut self.flushes);
        let done = join_all(flushes.into_iter().map(|flush| engine.flush(flush))).await;
        done.into_iter().collect()
    }
}

/// Reads all partitions back and releases them.
async fn compare(targets: &[Target<'_>], manifest: &Manifest) -> Result<RestoreReport> {
    let mut restored = RestoreReport::default();
    for (target, saved) in targets.iter().zip(&manifest.partitions) {
        target.progress.send_modify(|progress| {
            progress.phase = BackupPhase::Comparing;
            progress.done = restored.partitions;
        });
        restored.bytes += target.compare(saved).await?;
        restored.rows += saved.rows;
        restored.events += target.digest.events;
        restored.partitions += 1;
        target
            .engine
            .release(target.partition, target.epoch)
            .await?;
    }
    Ok(restored)
}

/// Restores the cluster records. Their versions start anew: versions read before the
/// restore belong to another life of the store.
async fn records(engine: &dyn Engine, folder: &BackupFolder) -> Result<()> {
    let life = (identity::RECORD.to_string(), identity::random().into());
    let records = state_files::read_records(folder)?.into_iter();
    let records = records.map(|record| (record.key, record.value));
    for (key, value) in records.chain([life]) {
        let value: Bytes = value;
        let mut version = 0;
        while let CasOutcome::Conflict { version: found, .. } =
            engine.cas(&key, version, value.clone()).await?
        {
            version = found;
        }
    }
    Ok(())
}

/// Acquires a partition that has no entries yet.
async fn acquire(engine: &dyn Engine, owner: Owner, partition: Partition) -> Result<Epoch> {
    let mut expect = Epoch(0);
    loop {
        match engine.acquire(partition, owner, expect).await? {
            AcquireOutcome::Granted(tenure) if tenure.last.0 == 0 && tenure.meta.is_empty() => {
                return Ok(tenure.epoch);
            }
            AcquireOutcome::Granted(_) => {
                let what = "it has been written to".into();
                return Err(Error::new(ErrorKind::RestoreDiffers { partition, what }));
            }
            AcquireOutcome::Refused {
                epoch,
                owner: Some(owner),
            } if epoch == expect => return Err(Error::new(StorageKind::Held { partition, owner })),
            AcquireOutcome::Refused { epoch, .. } => expect = epoch,
        }
    }
}

/// A partition that is being written.
struct Target<'a> {
    engine: &'a dyn Engine,
    /// The backup that it comes from.
    folder: &'a BackupFolder,
    partition: Partition,
    epoch: Epoch,
    last: EntryNumber,
    heads: BTreeMap<StreamId, StreamHead>,
    tables: BTreeSet<TableId>,
    digest: EventDigest,
    progress: &'a watch::Sender<BackupProgress>,
}

impl Target<'_> {
    /// Writes all rows but the last ones, which it returns.
    async fn rows(
        &mut self,
        chain: &BackupChain,
        saved: &PartitionManifest,
    ) -> Result<Vec<FlushedRow>> {
        let mut merge = chain.rows(self.partition)?;
        let mut digest = RowDigest::new();
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while let Some((row, value)) = merge.next()? {
            digest.add(&row, &value);
            let (table, key) = split_row_key(&row);
            self.tables.insert(table);
            bytes += row.len() + value.len();
            // Rows are slices of a block: copies let go of it.
            rows.push(FlushedRow {
                table,
                key: Bytes::copy_from_slice(&key),
                value: Some(Bytes::copy_from_slice(&value)),
            });
            if bytes >= limits::RESTORE_FLUSH_BYTES {
                self.note(rows.len(), bytes);
                let flush = self.flush(std::mem::take(&mut rows), Bytes::new());
                self.engine.flush(flush).await?;
                bytes = 0;
            }
        }
        self.note(rows.len(), bytes);
        self.check_rows(&digest, saved, "the chain")?;
        Ok(rows)
    }

    fn note(&self, rows: usize, bytes: usize) {
        self.progress.send_modify(|progress| {
            progress.rows += rows as u64;
            progress.bytes += bytes as u64;
        });
    }

    fn check_rows(&self, digest: &RowDigest, saved: &PartitionManifest, whose: &str) -> Result<()> {
        if digest.rows == saved.rows && self.folder.row_digest(digest)? == saved.rows_digest {
            return Ok(());
        }
        Err(self.differs(format!(
            "{whose} has {} rows that are not the {} rows of the manifest",
            digest.rows, saved.rows
        )))
    }

    /// Appends the events that are left at the end of the chain. They must be dense,
    /// from where their stream begins to where it ends.
    async fn events(&mut self, chain: &BackupChain) -> Result<()> {
        let mut reader = chain.events(self.partition);
        let mut ends: BTreeMap<StreamId, (Sequence, Offset)> = BTreeMap::new();
        let (mut batches, mut bytes, mut unflushed) = (Vec::new(), 0, 0);
        while let Some(batch) = reader.next()? {
            let head = self.heads.get(&batch.stream).copied().unwrap_or_default();
            if batch.next() <= head.first {
                continue;
            }
            let end = ends.get(&batch.stream).copied();
            let follows = match end {
                Some(end) => end == (batch.first, batch.offset),
                None => batch.first <= head.first,
            };
            if !follows || batch.next() > head.next {
                return Err(self.gap(batch.stream, end.map_or(head.first, |end| end.0)));
            }
            ends.insert(batch.stream, (batch.next(), batch.end()));
            self.digest.add(&batch);
            bytes += batch.weight();
            batches.push(batch);
            if bytes >= limits::GROUP_BYTES {
                self.append(std::mem::take(&mut batches), bytes).await?;
                unflushed += std::mem::take(&mut bytes);
            }
            if unflushed >= limits::RESTORE_FLUSH_BYTES {
                let flush = self.flush(Vec::new(), Bytes::new());
                self.engine.flush(flush).await?;
                unflushed = 0;
            }
        }
        if !batches.is_empty() {
            self.append(batches, bytes).await?;
        }
        for (stream, head) in &self.heads {
            let end = ends.get(stream).copied();
            let is_whole = match end {
                Some(end) => end == (head.next, head.end),
                None => head.first == head.next,
            };
            if !is_whole {
                return Err(self.gap(*stream, end.map_or(head.first, |end| end.0)));
            }
        }
        Ok(())
    }

    fn gap(&self, stream: StreamId, from: Sequence) -> Error {
        self.differs(format!(
            "stream {} of the chain does not go on at event {from}",
            stream.0
        ))
    }

    async fn append(&mut self, batches: Vec<EventBatch>, bytes: usize) -> Result<()> {
        let events = batches
            .iter()
            .map(|batch| u64::from(batch.count))
            .sum::<u64>();
        let number = self.last.next();
        let entry = Entry {
            partition: self.partition,
            epoch: self.epoch,
            number,
            // The events are not a transaction of this life.
            body: EntryBody::default().encode(),
            batches,
        };
        let outcomes = self.engine.append(&[entry]).await?;
        if outcomes != [Outcome::Committed] {
            return Err(self.differs("its events were refused".into()));
        }
        self.last = number;
        self.progress.send_modify(|progress| {
            progress.events += events;
            progress.bytes += bytes as u64;
        });
        Ok(())
    }

    fn flush(&self, rows: Vec<FlushedRow>, meta: Bytes) -> Flush {
        let trims = self.heads.iter();
        let trims = trims.map(|(stream, head)| (*stream, head.first));
        Flush {
            partition: self.partition,
            epoch: self.epoch,
            up_to: self.last,
            clears: Vec::new(),
            rows,
            trims: trims.collect(),
            meta,
        }
    }

    /// The last rows, with what the next owner must know.
    fn last_flush(&self, rows: Vec<FlushedRow>, saved: &PartitionManifest) -> Flush {
        let (lsn, time) = (Lsn(saved.lsn), Timestamp(saved.time_ms));
        let meta = meta::encode(lsn, time, &self.heads, Some(&self.tables));
        self.flush(rows, meta)
    }

    /// Reads everything back; answers how many bytes it has.
    async fn compare(&self, saved: &PartitionManifest) -> Result<u64> {
        let mut bytes = 0;
        let mut digest = RowDigest::new();
        for table in &self.tables {
            let mut from = Bound::Unbounded;
            loop {
                let page = self.scan(*table, from).await?;
                for row in &page {
                    bytes += (row.key.len() + row.value.len()) as u64;
                    digest.add(&row_key(*table, &row.key), &row.value);
                }
                match page.last() {
                    Some(last) => from = Bound::Excluded(last.key.clone()),
                    None => break,
                }
            }
        }
        self.check_rows(&digest, saved, "the engine")?;
        let mut found = EventDigest::default();
        for (stream, head) in &self.heads {
            let mut next = head.first;
            while next < head.next {
                let page = self.read(*stream, next).await?;
                let Some(last) = page.last() else {
                    break;
                };
                next = last.next();
                for batch in &page {
                    bytes += batch.weight() as u64;
                    found.add(batch);
                }
            }
        }
        if found == self.digest {
            Ok(bytes)
        } else {
            Err(self.differs("its events are not those of the backup".into()))
        }
    }

    async fn scan(&self, table: TableId, from: Bound<Bytes>) -> Result<Vec<TableRow>> {
        // Rows may be large, so a page is small.
        let range = Scan {
            from,
            to: Bound::Unbounded,
            limit: 256,
        };
        self.engine.scan(self.partition, table, range).await
    }

    async fn read(&self, stream: StreamId, from: Sequence) -> Result<Vec<EventBatch>> {
        let (from, max_bytes) = (ReadPosition::Sequence(from), limits::BACKUP_PAGE_BYTES);
        let read = self
            .engine
            .read_events(self.partition, stream, from, max_bytes);
        read.await
    }

    fn differs(&self, what: String) -> Error {
        let partition = self.partition;
        Error::new(ErrorKind::RestoreDiffers { partition, what })
    }
}

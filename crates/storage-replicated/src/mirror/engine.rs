//! An engine whose entries are also in the other region.
//!
//! An entry is written locally first, then remotely. If the other region does not accept
//! it for [`PATIENCE`](super::PATIENCE), the mirror asks to continue alone and waits until
//! the witness has recorded that; then no commit waits for the other region until it has
//! a full copy again. A region that is not the owner writes nothing.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex as Guard;
use steadfast_core::id::{EntryNumber, Epoch, Owner, Partition, StreamId, TableId};
use steadfast_core::limits;
use steadfast_storage::body::{EntryBody, Writes};
use steadfast_storage::engine::{
    AcquireOutcome, CasOutcome, Engine, Entry, EventBatch, Flush, Outcome, ReadPosition, Record,
    Scan, TableRow, Tenure,
};
use steadfast_storage::export::Pages;
use steadfast_storage::{Error, Ledger, Result, Store};
use tokio::sync::{Mutex, watch};

use super::copy::{CopyRequest, CopyResponse, CopyStep};
use super::generation::CopyGeneration;
use super::leader_lease::{LeaderLease, LeaderMode};
use super::times::{BEGINNING, PATIENCE};
use crate::error::ErrorKind;

/// The outcome of a full copy: done, or why not.
type CopyResult = std::result::Result<(), String>;

/// The connection to the other region.
#[async_trait]
pub trait PeerRegion: Send + Sync + 'static {
    /// Sends a step and returns the response; `None` if the outcome is unknown.
    async fn copy(&self, copy: &CopyRequest) -> Option<CopyResponse>;
}

/// An engine that acknowledges an entry once two regions have it.
pub struct Mirror {
    local: Arc<dyn Engine>,
    lease: Arc<LeaderLease>,
    peer: Arc<dyn PeerRegion>,
    /// Held while a group is written, so that copies go in the order of groups.
    line: Mutex<FollowerProgress>,
    /// Entries that were refused because the region does not own the space.
    fenced: AtomicU64,
    /// The generation that stores the space in the engine.
    generation: Guard<CopyGeneration>,
    /// Counts full copies, so that late steps of earlier ones are recognised.
    sessions: AtomicU64,
}

/// The replication state of the other region.
enum FollowerProgress {
    /// It does not follow.
    Down,
    /// A full copy is being sent; later writes are queued.
    Copying {
        session: u64,
        waiting: VecDeque<(Partition, Bytes)>,
        bytes: usize,
    },
    /// It has everything; this is the number of its next step.
    Live { session: u64, next: u64 },
}

/// The row that proves that earlier commits are visible.
const MARK: (TableId, &[u8]) = (TableId(1000), b"mark");

/// Most bytes queued while a full copy is sent.
const WAITING_BYTES: usize = 64 * 1024 * 1024;

/// Bytes of one step.
const STEP_BYTES: usize = limits::GROUP_BYTES;

/// Delay before a step is sent again.
const AGAIN: Duration = Duration::from_millis(100);

impl Mirror {
    /// Creates a mirror in front of `local`.
    pub fn new(local: Arc<dyn Engine>, lease: Arc<LeaderLease>, peer: Arc<dyn PeerRegion>) -> Self {
        Self {
            local,
            lease,
            peer,
            line: Mutex::new(FollowerProgress::Down),
            fenced: AtomicU64::new(0),
            generation: Guard::default(),
            sessions: AtomicU64::new(0),
        }
    }

    /// Entries that were refused because the region does not own the space.
    pub fn fenced(&self) -> u64 {
        self.fenced.load(Ordering::Relaxed)
    }

    /// Begins a new tenure in `generation`: the other region's progress is unknown again.
    pub async fn reset(&self, generation: CopyGeneration) {
        *self.line.lock().await = FollowerProgress::Down;
        *self.generation.lock() = generation;
    }

    /// The engine's partition that stores `partition`.
    fn place(&self, partition: Partition) -> Partition {
        self.generation.lock().place(partition)
    }

    /// The hash of the last entry as the store above computes it, with which the store
    /// resolves an unknown outcome. An entry in doubt is not flushed.
    async fn last_hash(&self, partition: Partition, tenure: &Tenure) -> Result<u64> {
        let last = self.replay(partition, tenure.last, 1).await?;
        let last = last.first().filter(|entry| entry.number == tenure.last);
        Ok(last.map_or(tenure.last_hash, Entry::hash))
    }

    /// Sends a full copy to the other region from the store's snapshots; from then on it
    /// gets every entry. The witness must have recorded that this region works alone.
    pub async fn copy_all(&self, store: &Store, partitions: usize) -> CopyResult {
        let epoch = self.lease.epoch().ok_or("this region is not the owner")?;
        if self.lease.mode() != LeaderMode::Alone {
            return Err("the other region follows already".to_owned());
        }
        let session = self.sessions.fetch_add(1, Ordering::Relaxed) + 1;
        *self.line.lock().await = FollowerProgress::Copying {
            session,
            waiting: VecDeque::new(),
            bytes: 0,
        };
        let copied = self.copy_from(store, partitions, epoch, session).await;
        if copied.is_err() {
            let mut line = self.line.lock().await;
            if matches!(&*line, FollowerProgress::Copying { session: own, .. } if *own == session) {
                *line = FollowerProgress::Down;
            }
        }
        copied
    }

    async fn copy_from(
        &self,
        store: &Store,
        partitions: usize,
        epoch: u64,
        session: u64,
    ) -> CopyResult {
        let ledgers = store.owned();
        if ledgers.len() != partitions {
            return Err("not all partitions are served".to_owned());
        }
        let mut steps = CopySession {
            mirror: self,
            epoch,
            session,
            next: 1,
        };
        steps.send(CopyStep::Begin).await?;
        let words = |error: Error| error.to_string();
        for ledger in &ledgers {
            // Groups become visible in order: when this one is, all earlier ones are, and
            // later ones are queued.
            let mut mark = Writes::new();
            mark.put(MARK.0, MARK.1, &session.to_le_bytes());
            ledger.commit(mark).await.map_err(words)?;
        }
        for ledger in &ledgers {
            steps.rows(ledger).await?;
        }
        loop {
            let mut line = self.line.lock().await;
            let FollowerProgress::Copying {
                session: own,
                waiting,
                bytes,
            } = &mut *line
            else {
                return Err("the copy was given up".to_owned());
            };
            if *own != session {
                return Err("another copy was begun".to_owned());
            }
            if waiting.is_empty() {
                // No group is written while the lock is held.
                steps.send(CopyStep::Whole).await?;
                *line = FollowerProgress::Live {
                    session,
                    next: steps.next,
                };
                self.lease.mark_synced(epoch);
                return Ok(());
            }
            let mut parts = Vec::new();
            let mut size = 0;
            while let Some(part) = waiting.pop_front() {
                size += part.1.len();
                parts.push(part);
                if size >= STEP_BYTES {
                    break;
                }
            }
            *bytes -= size;
            drop(line);
            steps.send(CopyStep::Changes(parts)).await?;
        }
    }

    /// Replicates a written group to the other region; returns whether it may be
    /// acknowledged.
    async fn copy_group(
        &self,
        line: &mut FollowerProgress,
        parts: Vec<(Partition, Bytes)>,
    ) -> bool {
        match line {
            // Every step has a change: it stores its number in the copy.
            FollowerProgress::Live { .. } if parts.is_empty() => self.lease.epoch().is_some(),
            FollowerProgress::Live { session, next } => {
                let copy = |epoch| CopyRequest {
                    epoch,
                    session: *session,
                    number: *next,
                    step: CopyStep::Changes(parts.clone()),
                };
                let began = self.lease.now();
                loop {
                    let Some(epoch) = self.lease.epoch() else {
                        return false;
                    };
                    match self.peer.copy(&copy(epoch)).await {
                        Some(CopyResponse::Done) => {
                            *next += 1;
                            return true;
                        }
                        Some(CopyResponse::Deposed(_)) => {
                            self.lease.release();
                            return false;
                        }
                        Some(CopyResponse::Strange) => break,
                        Some(CopyResponse::Failed(_)) | None => {}
                    }
                    if self.lease.now().saturating_sub(began) >= PATIENCE {
                        break;
                    }
                    tokio::time::sleep(AGAIN).await;
                }
                *line = FollowerProgress::Down;
                self.go_alone().await
            }
            FollowerProgress::Copying { waiting, bytes, .. } => {
                *bytes += parts.iter().map(|part| part.1.len()).sum::<usize>();
                waiting.extend(parts);
                if *bytes > WAITING_BYTES {
                    *line = FollowerProgress::Down;
                }
                self.go_alone().await
            }
            FollowerProgress::Down => self.go_alone().await,
        }
    }

    /// Waits until the witness has recorded that this region works alone; returns whether
    /// it may.
    async fn go_alone(&self) -> bool {
        let mut changes = self.lease.changes();
        loop {
            if self.lease.epoch().is_none() {
                return false;
            }
            match self.lease.mode() {
                LeaderMode::Away => return false,
                LeaderMode::Alone => {
                    self.lease.note_alone();
                    // The last check of the lease before the group is acknowledged.
                    return self.lease.epoch().is_some();
                }
                LeaderMode::Synced => self.lease.request_alone(),
            }
            changes.mark_unchanged();
            let _ = tokio::time::timeout(AGAIN, changes.changed()).await;
        }
    }
}

/// The steps of one full copy.
struct CopySession<'a> {
    mirror: &'a Mirror,
    epoch: u64,
    session: u64,
    next: u64,
}

impl CopySession<'_> {
    async fn send(&mut self, step: CopyStep) -> CopyResult {
        let copy = CopyRequest {
            epoch: self.epoch,
            session: self.session,
            number: self.next,
            step,
        };
        let patience = match copy.step {
            CopyStep::Begin => BEGINNING,
            _ => PATIENCE,
        };
        let seat = &self.mirror.lease;
        let began = seat.now();
        loop {
            if seat.epoch() != Some(self.epoch) {
                return Err("this region is not the owner any more".to_owned());
            }
            match self.mirror.peer.copy(&copy).await {
                Some(CopyResponse::Done) => {
                    self.next += 1;
                    return Ok(());
                }
                Some(CopyResponse::Deposed(epoch)) => {
                    seat.release();
                    return Err(format!("the other region knows of epoch {epoch}"));
                }
                Some(CopyResponse::Strange) => return Err("it began anew".to_owned()),
                Some(CopyResponse::Failed(why)) => return Err(why),
                None => {}
            }
            if seat.now().saturating_sub(began) >= patience {
                return Err("the other region does not answer".to_owned());
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// All rows of a partition.
    async fn rows(&mut self, ledger: &Ledger) -> CopyResult {
        let words = |error: Error| error.to_string();
        let mut writes = Writes::new();
        for table in ledger.tables().map_err(words)? {
            let mut pages = Pages::new(ledger, table);
            while let Some(rows) = pages.next().await.map_err(words)? {
                for row in rows {
                    writes.put(table, &row.key, &row.value);
                    if writes.bytes() >= STEP_BYTES {
                        self.part(ledger, std::mem::take(&mut writes)).await?;
                    }
                }
            }
        }
        if writes.is_empty() {
            Ok(())
        } else {
            self.part(ledger, writes).await
        }
    }

    async fn part(&mut self, ledger: &Ledger, writes: Writes) -> CopyResult {
        let part = (ledger.partition(), writes.into_redo());
        self.send(CopyStep::Changes(vec![part])).await
    }
}

#[async_trait]
impl Engine for Mirror {
    async fn acquire(
        &self,
        partition: Partition,
        owner: Owner,
        expect: Epoch,
    ) -> Result<AcquireOutcome> {
        if self.lease.epoch().is_none() {
            // Another region owns the space.
            let other = Owner {
                node: u32::MAX,
                incarnation: 0,
            };
            return Ok(AcquireOutcome::Refused {
                epoch: expect,
                owner: Some(other),
            });
        }
        let place = self.place(partition);
        let mut acquired = self.local.acquire(place, owner, expect).await?;
        if let AcquireOutcome::Granted(tenure) = &mut acquired
            && place != partition
        {
            tenure.last_hash = self.last_hash(partition, tenure).await?;
        }
        Ok(acquired)
    }

    async fn release(&self, partition: Partition, epoch: Epoch) -> Result<()> {
        self.local.release(self.place(partition), epoch).await
    }

    async fn renew(&self, owner: Owner, ttl: Duration) -> Result<()> {
        self.local.renew(owner, ttl).await
    }

    async fn append(&self, group: &[Entry]) -> Result<Vec<Outcome>> {
        if let Some(entry) = group.iter().find(|entry| !entry.batches.is_empty()) {
            return Err(Error::new(ErrorKind::NotMirrored {
                partition: entry.partition,
            }));
        }
        let mut line = self.line.lock().await;
        if self.lease.epoch().is_none() {
            self.fenced.fetch_add(group.len() as u64, Ordering::Relaxed);
            return Ok(vec![Outcome::Fenced; group.len()]);
        }
        let placed = group.iter().map(|entry| Entry {
            partition: self.place(entry.partition),
            ..entry.clone()
        });
        let placed: Vec<_> = placed.collect();
        let mut outcomes = self.local.append(&placed).await?;
        let mut parts = Vec::new();
        for (entry, _) in group
            .iter()
            .zip(&outcomes)
            .filter(|(_, outcome)| **outcome == Outcome::Committed)
        {
            let body = EntryBody::decode(entry.body.clone());
            let body = body.expect("the overlay has encoded it");
            let changes = body.transactions.into_iter();
            parts.extend(changes.map(|one| (entry.partition, one.operations)));
        }
        if outcomes.contains(&Outcome::Unknown) {
            // The other region cannot learn this outcome: it needs a full copy.
            *line = FollowerProgress::Down;
        }
        if !self.copy_group(&mut line, parts).await {
            self.fenced.fetch_add(group.len() as u64, Ordering::Relaxed);
            outcomes.fill(Outcome::Fenced);
        }
        Ok(outcomes)
    }

    async fn replay(
        &self,
        partition: Partition,
        from: EntryNumber,
        max_bytes: usize,
    ) -> Result<Vec<Entry>> {
        let place = self.place(partition);
        let mut entries = self.local.replay(place, from, max_bytes).await?;
        for entry in &mut entries {
            entry.partition = partition;
        }
        Ok(entries)
    }

    async fn flush(&self, flush: Flush) -> Result<()> {
        let partition = self.place(flush.partition);
        self.local.flush(Flush { partition, ..flush }).await
    }

    async fn get(&self, partition: Partition, table: TableId, key: &[u8]) -> Result<Option<Bytes>> {
        self.local.get(self.place(partition), table, key).await
    }

    async fn scan(
        &self,
        partition: Partition,
        table: TableId,
        range: Scan,
    ) -> Result<Vec<TableRow>> {
        self.local.scan(self.place(partition), table, range).await
    }

    async fn scan_keys(
        &self,
        partition: Partition,
        table: TableId,
        range: Scan,
    ) -> Result<Vec<Bytes>> {
        self.local
            .scan_keys(self.place(partition), table, range)
            .await
    }

    async fn read_events(
        &self,
        partition: Partition,
        stream: StreamId,
        from: ReadPosition,
        max_bytes: usize,
    ) -> Result<Vec<EventBatch>> {
        self.local
            .read_events(self.place(partition), stream, from, max_bytes)
            .await
    }

    async fn cas(&self, key: &str, expect: u64, value: Bytes) -> Result<CasOutcome> {
        self.local.cas(key, expect, value).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Record>> {
        self.local.list(prefix).await
    }

    fn watch(&self) -> watch::Receiver<u64> {
        self.local.watch()
    }
}

//! The hostile engine: fault injection below the seam.
//!
//! It wraps another engine and does whatever the seam allows: delay, `Unknown` that was
//! or was not applied, an acquire whose answer is lost, a full disk, a rival that takes
//! a partition in the middle of a group and writes to it. All faults come from one seed.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use fastrand::Rng;
use parking_lot::Mutex;
use steadfast_core::id::{EntryNumber, Epoch, Lsn, Owner, Partition, StreamId, TableId};
use tokio::sync::watch;

use crate::body::EntryBody;
use crate::engine::{
    AcquireOutcome, CasOutcome, Engine, Entry, EventBatch, Flush, Outcome, ReadPosition, Record,
    Scan, TableRow,
};
use crate::error::{Error, ErrorKind, Result};

/// How often each fault strikes, in percent of the calls it applies to.
#[derive(Clone, Copy, Debug, Default)]
pub struct EngineFaults {
    /// Let other tasks run first.
    pub delay: u8,
    /// Answer `Unknown` although the entry was committed.
    pub unknown_applied: u8,
    /// Answer `Unknown` although the entry was not committed.
    pub unknown_dropped: u8,
    /// Refuse a whole group, as a full disk does.
    pub refused: u8,
    /// Lose the answer of an acquire that succeeded.
    pub lost_acquire: u8,
    /// Let a rival take one partition of a group, and often write to it.
    pub rival: u8,
    /// Neither do nor answer a renewal of a lease.
    pub unheard_renewal: u8,
    /// Lose the answer of a swap that was done.
    pub lost_swap: u8,
}

impl EngineFaults {
    /// All faults, each often enough to meet the others.
    pub fn all() -> Self {
        Self {
            delay: 30,
            unknown_applied: 8,
            unknown_dropped: 8,
            refused: 5,
            lost_acquire: 15,
            rival: 4,
            unheard_renewal: 0,
            lost_swap: 0,
        }
    }
}

/// An engine that injects every fault that the seam allows.
pub struct HostileEngine {
    inner: Arc<dyn Engine>,
    faults: Mutex<EngineFaults>,
    rng: Mutex<Rng>,
}

/// The rival that takes partitions away.
pub const RIVAL: Owner = Owner {
    node: u32::MAX,
    incarnation: 1,
};

impl HostileEngine {
    /// Wraps `inner`.
    pub fn new(inner: Arc<dyn Engine>, faults: EngineFaults, seed: u64) -> Self {
        Self {
            inner,
            faults: Mutex::new(faults),
            rng: Mutex::new(Rng::with_seed(seed)),
        }
    }

    /// Stops being hostile.
    pub fn stop_faults(&self) {
        self.set_faults(EngineFaults::default());
    }

    /// Other faults from now on.
    pub fn set_faults(&self, faults: EngineFaults) {
        *self.faults.lock() = faults;
    }

    fn strikes(&self, percent: impl Fn(&EngineFaults) -> u8) -> bool {
        let percent = percent(&self.faults.lock());
        self.rng.lock().u8(0..100) < percent
    }

    async fn delay(&self) {
        while self.strikes(|faults| faults.delay) {
            tokio::task::yield_now().await;
        }
    }

    /// Takes one partition of the group, and half the time writes to it.
    async fn intrude(&self, group: &[Entry]) -> Result<()> {
        if group.is_empty() || !self.strikes(|faults| faults.rival) {
            return Ok(());
        }
        let victim = self.rng.lock().usize(0..group.len());
        let (partition, epoch) = (group[victim].partition, group[victim].epoch);
        let taken = self.inner.acquire(partition, RIVAL, epoch).await?;
        let AcquireOutcome::Granted(tenure) = taken else {
            return Ok(());
        };
        if self.strikes(|_| 50) {
            let entry = empty_entry(partition, tenure.epoch, tenure.last.next());
            self.inner.append(&[entry]).await?;
        }
        if self.strikes(|_| 50) {
            self.inner.release(partition, tenure.epoch).await?;
        }
        Ok(())
    }
}

/// The answer is lost, whatever was done.
fn unanswered() -> Error {
    Error::new(ErrorKind::Io {
        path: "the answer".into(),
        doing: "receive",
    })
}

/// An entry without transactions: nothing changes but the number.
fn empty_entry(partition: Partition, epoch: Epoch, number: EntryNumber) -> Entry {
    let body = EntryBody {
        first_lsn: Lsn(1),
        ..EntryBody::default()
    };
    Entry {
        partition,
        epoch,
        number,
        body: body.encode(),
        batches: Vec::new(),
    }
}

#[async_trait]
impl Engine for HostileEngine {
    async fn acquire(
        &self,
        partition: Partition,
        owner: Owner,
        expect: Epoch,
    ) -> Result<AcquireOutcome> {
        self.delay().await;
        let acquired = self.inner.acquire(partition, owner, expect).await?;
        if self.strikes(|faults| faults.lost_acquire) {
            Err(unanswered())
        } else {
            Ok(acquired)
        }
    }

    async fn release(&self, partition: Partition, epoch: Epoch) -> Result<()> {
        self.delay().await;
        self.inner.release(partition, epoch).await
    }

    async fn renew(&self, owner: Owner, ttl: Duration) -> Result<()> {
        if self.strikes(|faults| faults.unheard_renewal) {
            return std::future::pending().await;
        }
        self.inner.renew(owner, ttl).await
    }

    async fn append(&self, group: &[Entry]) -> Result<Vec<Outcome>> {
        self.delay().await;
        if self.strikes(|faults| faults.refused) {
            let path = "the hostile disk".into();
            return Err(Error::new(ErrorKind::DiskFull { path }));
        }
        self.intrude(group).await?;
        let mut passed = Vec::new();
        let is_dropped: Vec<bool> = group
            .iter()
            .map(|entry| {
                let is_dropped = self.strikes(|faults| faults.unknown_dropped);
                if !is_dropped {
                    passed.push(entry.clone());
                }
                is_dropped
            })
            .collect();
        let mut outcomes = self.inner.append(&passed).await?.into_iter();
        self.delay().await;
        let answer = |is_dropped: &bool| {
            if *is_dropped {
                Outcome::Unknown
            } else {
                match outcomes.next() {
                    Some(Outcome::Committed) if self.strikes(|faults| faults.unknown_applied) => {
                        Outcome::Unknown
                    }
                    Some(outcome) => outcome,
                    None => Outcome::Unknown,
                }
            }
        };
        Ok(is_dropped.iter().map(answer).collect())
    }

    async fn replay(
        &self,
        partition: Partition,
        from: EntryNumber,
        max_bytes: usize,
    ) -> Result<Vec<Entry>> {
        self.delay().await;
        self.inner.replay(partition, from, max_bytes).await
    }

    async fn flush(&self, flush: Flush) -> Result<()> {
        self.delay().await;
        self.inner.flush(flush).await
    }

    async fn get(&self, partition: Partition, table: TableId, key: &[u8]) -> Result<Option<Bytes>> {
        self.delay().await;
        self.inner.get(partition, table, key).await
    }

    async fn scan(
        &self,
        partition: Partition,
        table: TableId,
        range: Scan,
    ) -> Result<Vec<TableRow>> {
        self.delay().await;
        self.inner.scan(partition, table, range).await
    }

    async fn scan_keys(
        &self,
        partition: Partition,
        table: TableId,
        range: Scan,
    ) -> Result<Vec<Bytes>> {
        self.delay().await;
        self.inner.scan_keys(partition, table, range).await
    }

    async fn read_events(
        &self,
        partition: Partition,
        stream: StreamId,
        from: ReadPosition,
        max_bytes: usize,
    ) -> Result<Vec<EventBatch>> {
        self.delay().await;
        self.inner
            .read_events(partition, stream, from, max_bytes)
            .await
    }

    async fn cas(&self, key: &str, expect: u64, value: Bytes) -> Result<CasOutcome> {
        self.delay().await;
        let swap = self.inner.cas(key, expect, value).await?;
        if self.strikes(|faults| faults.lost_swap) {
            Err(unanswered())
        } else {
            Ok(swap)
        }
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Record>> {
        self.inner.list(prefix).await
    }

    fn shard(&self, partition: Partition) -> u16 {
        self.inner.shard(partition)
    }

    fn watch(&self) -> watch::Receiver<u64> {
        self.inner.watch()
    }
}

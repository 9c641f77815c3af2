//! The engine over all shards: each call goes to one of them.
//!
//! A lease must hold in every shard, because each decides by itself whether a node's
//! partitions may be taken. Cluster records are in shard 0.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::join_all;
use parking_lot::RwLock;
use steadfast_core::id::{EntryNumber, Epoch, Owner, Partition, StreamId, TableId};
use steadfast_core::task::name_task;
use steadfast_storage::engine::{
    AcquireOutcome, CasOutcome, Engine, Entry, EventBatch, Flush, Outcome, ReadPosition, Record,
    Scan, TableRow,
};
use steadfast_storage::{Error, Result};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::map::{MAP, ShardMap};
use super::open::{Growth, open};
use crate::cas::SHARD_RECORDS;
use crate::database_snapshot::DatabaseSnapshot;
use crate::engine::PostgresEngine;
use crate::error::ErrorKind;
use crate::options::Options;
use crate::scrub::ScrubReport;

/// One engine per shard, and the map.
pub struct ShardedEngine {
    engines: Vec<Arc<PostgresEngine>>,
    map: RwLock<(ShardMap, u64)>,
    wake: watch::Sender<u64>,
    tasks: Vec<JoinHandle<()>>,
}

impl ShardedEngine {
    /// Opens all databases that the address names. A new cluster is spread over them;
    /// later they must be the same ones, in the same order.
    pub async fn open(options: &Options) -> Result<Self> {
        Self::start(options, Growth::Refused).await
    }

    /// As [`ShardedEngine::open`]; new databases at the end of the address join.
    pub async fn extend(options: &Options) -> Result<Self> {
        Self::start(options, Growth::Welcome).await
    }

    async fn start(options: &Options, growth: Growth) -> Result<Self> {
        let (engines, map, version) = open(options, growth).await?;
        let wake = watch::channel(0).0;
        let tasks = engines
            .iter()
            .map(|engine| tokio::spawn(name_task(pass_on(engine.watch(), wake.clone()))))
            .collect();
        Ok(Self {
            engines,
            map: RwLock::new((map, version)),
            wake,
            tasks,
        })
    }

    /// The identity of the cluster: that of shard 0.
    pub fn cluster(&self) -> &str {
        self.engines[0].cluster()
    }

    /// How many shards there are.
    pub fn count(&self) -> usize {
        self.engines.len()
    }

    /// Partitions that have ever had an owner, in order.
    pub async fn partitions(&self) -> Result<Vec<Partition>> {
        let mut all = Vec::new();
        for (shard, engine) in self.engines.iter().enumerate() {
            let found = engine.partitions().await?.into_iter();
            // Remains of an interrupted move do not count.
            all.extend(found.filter(|partition| usize::from(self.shard(*partition)) == shard));
        }
        all.sort_unstable();
        Ok(all)
    }

    /// Tables of a partition that have flushed rows, in order.
    pub async fn tables(&self, partition: Partition) -> Result<Vec<TableId>> {
        self.of(partition).tables(partition).await
    }

    /// Nodes whose lease has not ended in some shard, in order.
    pub async fn nodes(&self) -> Result<Vec<u32>> {
        let mut all = Vec::new();
        for engine in &self.engines {
            all.extend(engine.nodes().await?);
        }
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }

    /// Checks everything on every server of every shard, standbys included.
    pub async fn scrub(&self) -> Vec<(u16, ScrubReport)> {
        let mut all = Vec::new();
        for (shard, engine) in self.engines.iter().enumerate() {
            let found = engine.scrub().await.into_iter();
            all.extend(found.map(|replica| (shard as u16, replica)));
        }
        all
    }

    /// How far the slowest standby of each shard was behind with its replay, in
    /// milliseconds.
    pub fn replay_lags_ms(&self) -> Vec<u64> {
        self.engines.iter().map(|e| e.replay_lag_ms()).collect()
    }

    /// Commit statements that were sent, by shard.
    pub fn statements(&self) -> Vec<u64> {
        self.engines.iter().map(|e| e.statements()).collect()
    }

    /// A snapshot of the database while nodes use it. Several databases have no common one.
    pub async fn freeze(&self) -> Result<DatabaseSnapshot> {
        match &self.engines[..] {
            [only] => DatabaseSnapshot::begin(Arc::clone(only)).await,
            several => {
                let databases = several.len();
                Err(Error::new(ErrorKind::NoCommonMoment { databases }))
            }
        }
    }

    /// The engine of a shard.
    pub fn engine(&self, shard: u16) -> Option<&Arc<PostgresEngine>> {
        self.engines.get(usize::from(shard))
    }

    /// The shard whose database has this identity.
    pub fn place(&self, identity: &str) -> Option<u16> {
        let place = self.engines.iter().position(|e| e.cluster() == identity);
        place.map(|place| place as u16)
    }

    /// Moves a partition to another shard in the map of the cluster.
    pub async fn switch(&self, partition: Partition, to: u16) -> Result<()> {
        let (mut map, version) = self.map.read().clone();
        map.relocate(partition, to);
        match self.engines[0].cas(MAP, version, map.encode()).await? {
            CasOutcome::Done(version) => *self.map.write() = (map, version),
            CasOutcome::Conflict { .. } => {
                let what = "another process has changed the shard map".to_string();
                return Err(Error::new(ErrorKind::BadMove { what }));
            }
        }
        Ok(())
    }

    fn of(&self, partition: Partition) -> &PostgresEngine {
        let shard = usize::from(self.shard(partition));
        // The map names no shard that was not opened.
        self.engines.get(shard).unwrap_or(&self.engines[0])
    }
}

impl Drop for ShardedEngine {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Wakes the watchers of all shards when one has changed.
async fn pass_on(mut from: watch::Receiver<u64>, to: watch::Sender<u64>) {
    while from.changed().await.is_ok() {
        to.send_modify(|count| *count += 1);
    }
}

#[async_trait]
impl Engine for ShardedEngine {
    async fn acquire(
        &self,
        partition: Partition,
        owner: Owner,
        expect: Epoch,
    ) -> Result<AcquireOutcome> {
        self.of(partition).acquire(partition, owner, expect).await
    }

    async fn release(&self, partition: Partition, epoch: Epoch) -> Result<()> {
        self.of(partition).release(partition, epoch).await
    }

    async fn renew(&self, owner: Owner, ttl: Duration) -> Result<()> {
        let renewals = self.engines.iter().map(|engine| engine.renew(owner, ttl));
        join_all(renewals).await.into_iter().collect()
    }

    async fn append(&self, group: &[Entry]) -> Result<Vec<Outcome>> {
        let mut shares: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
        for (index, entry) in group.iter().enumerate() {
            let shard = self.shard(entry.partition);
            shares.entry(shard).or_default().push(index);
        }
        if shares.len() <= 1 {
            let partition = group.first().map_or(Partition(0), |entry| entry.partition);
            return self.of(partition).append(group).await;
        }
        self.append_shares(group, &shares).await
    }

    async fn replay(
        &self,
        partition: Partition,
        from: EntryNumber,
        max_bytes: usize,
    ) -> Result<Vec<Entry>> {
        let engine = self.of(partition);
        engine.replay(partition, from, max_bytes).await
    }

    async fn flush(&self, flush: Flush) -> Result<()> {
        self.of(flush.partition).flush(flush).await
    }

    async fn get(&self, partition: Partition, table: TableId, key: &[u8]) -> Result<Option<Bytes>> {
        self.of(partition).get(partition, table, key).await
    }

    async fn scan(
        &self,
        partition: Partition,
        table: TableId,
        range: Scan,
    ) -> Result<Vec<TableRow>> {
        self.of(partition).scan(partition, table, range).await
    }

    async fn scan_keys(
        &self,
        partition: Partition,
        table: TableId,
        range: Scan,
    ) -> Result<Vec<Bytes>> {
        self.of(partition).scan_keys(partition, table, range).await
    }

    async fn read_events(
        &self,
        partition: Partition,
        stream: StreamId,
        from: ReadPosition,
        max_bytes: usize,
    ) -> Result<Vec<EventBatch>> {
        let engine = self.of(partition);
        engine.read_events(partition, stream, from, max_bytes).await
    }

    async fn cas(&self, key: &str, expect: u64, value: Bytes) -> Result<CasOutcome> {
        self.engines[0].cas(key, expect, value).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<Record>> {
        let mut records = self.engines[0].list(prefix).await?;
        // These records are about these databases: in a backup they would mean others.
        records.retain(|record| !record.key.starts_with(SHARD_RECORDS));
        Ok(records)
    }

    fn shard(&self, partition: Partition) -> u16 {
        self.map.read().0.shard(partition)
    }

    fn watch(&self) -> watch::Receiver<u64> {
        self.wake.subscribe()
    }
}

impl ShardedEngine {
    /// Appends a group of several shards, each by itself.
    async fn append_shares(
        &self,
        group: &[Entry],
        shares: &BTreeMap<u16, Vec<usize>>,
    ) -> Result<Vec<Outcome>> {
        let appends = shares.values().map(|share| async move {
            let entries: Vec<_> = share.iter().map(|index| group[*index].clone()).collect();
            self.of(entries[0].partition).append(&entries).await
        });
        let answers = join_all(appends).await;
        let mut outcomes = vec![Outcome::Unknown; group.len()];
        let mut refusal = None;
        let mut wrote = false;
        for (share, answer) in shares.values().zip(answers) {
            match answer {
                Ok(found) => {
                    wrote = true;
                    let found = share.iter().zip(found);
                    found.for_each(|(index, outcome)| outcomes[*index] = outcome);
                }
                // Nothing of this share was written; other shares may have been.
                Err(error) => refusal = Some(error),
            }
        }
        match refusal {
            Some(error) if !wrote => Err(error),
            _ => Ok(outcomes),
        }
    }
}

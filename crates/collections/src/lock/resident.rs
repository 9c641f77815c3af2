//! Rows that stay in memory, with their lock and their value.
//!
//! A value here is what is committed and durable, decoded once. Reading or replacing
//! it needs the row's lock. Memory is bounded: past the budget, rows without lock
//! holders that were not used lately are evicted.

use std::any::Any;
use std::sync::Arc;

use hashbrown::HashTable;

use crate::lock::latch::Latch;
use crate::lock::name::{LockName, OwnedLockName};
use crate::lock::owner::LockOwner;
use crate::lock::word::LockWord;

/// A decoded value of any type.
pub type DecodedValue = Arc<dyn Any + Send + Sync>;

/// A row's committed value, as far as it is cached.
#[derive(Clone, Debug, Default)]
pub enum CachedValue {
    /// Not cached: read it from the ledger.
    #[default]
    Unknown,
    /// There is no such row.
    Absent,
    /// It has this value.
    Present(DecodedValue),
}

/// The lock word of a row; waiters are woken through a channel.
pub(crate) type RowLock<L> = LockWord<Arc<LockOwner<L>>, tokio::sync::oneshot::Sender<WaitOutcome>>;

/// How a wait for a lock ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// The lock is granted.
    Granted,
    /// The transaction has ended.
    Ended,
    /// It waited for transactions that waited for it, and is younger than these.
    Deadlock(Vec<u64>),
}

pub(crate) struct ResidentRow<L: Latch> {
    pub(crate) name: OwnedLockName,
    pub(crate) lock: RowLock<L>,
    pub(crate) cached: CachedValue,
    /// The cached value holds for this version of its collection only.
    pub(crate) version: u64,
    weight: usize,
    is_recent: bool,
}

/// Part of the resident rows.
pub(crate) struct LockShard<L: Latch> {
    rows: HashTable<ResidentRow<L>>,
    bytes: usize,
    limit: usize,
}

/// About what a row costs beside its bytes.
const OVERHEAD: usize = 160;

impl<L: Latch> LockShard<L> {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            rows: HashTable::new(),
            bytes: 0,
            limit,
        }
    }

    /// The row, resident from now on.
    pub(crate) fn row(&mut self, name: LockName<'_>) -> &mut ResidentRow<L> {
        let is_it = |row: &ResidentRow<L>| row.name.bytes.as_ref() == name.bytes;
        let entry = self
            .rows
            .entry(name.hash, is_it, |row: &ResidentRow<L>| row.name.hash);
        let bytes = &mut self.bytes;
        let row = entry.or_insert_with(|| {
            let weight = OVERHEAD + name.bytes.len();
            *bytes += weight;
            ResidentRow {
                name: name.keep(),
                lock: LockWord::new(),
                cached: CachedValue::Unknown,
                version: 0,
                weight,
                is_recent: true,
            }
        });
        let row = row.into_mut();
        row.is_recent = true;
        row
    }

    /// The row, if it is resident.
    pub(crate) fn find(&mut self, name: LockName<'_>) -> Option<&mut ResidentRow<L>> {
        self.rows
            .find_mut(name.hash, |row| row.name.bytes.as_ref() == name.bytes)
    }

    /// Replaces the cached value of a row, if the row is resident.
    pub(crate) fn remember(
        &mut self,
        name: LockName<'_>,
        version: u64,
        cached: CachedValue,
        bytes: usize,
    ) {
        let Some(row) = self.find(name) else {
            return;
        };
        let before = row.weight;
        row.weight = OVERHEAD + row.name.bytes.len() + bytes;
        row.cached = cached;
        row.version = version;
        let after = row.weight;
        self.bytes = self.bytes + after - before;
    }

    /// Drops a row without lock holders and without a value; past the budget, also
    /// others without lock holders.
    pub(crate) fn tidy(&mut self, name: LockName<'_>) {
        let is_it = |row: &ResidentRow<L>| row.name.bytes.as_ref() == name.bytes;
        if let Ok(entry) = self.rows.find_entry(name.hash, is_it) {
            let row = entry.get();
            if row.lock.is_free() && matches!(row.cached, CachedValue::Unknown) {
                self.bytes -= row.weight;
                entry.remove();
            }
        }
        if self.bytes > self.limit {
            self.evict();
        }
    }

    /// All rows, to inspect their locks.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &ResidentRow<L>> {
        self.rows.iter()
    }

    /// How many rows are resident.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Second chance: evicts rows that were not used since the last pass. If that is not
    /// enough, evicts all other rows without lock holders too.
    fn evict(&mut self) {
        let mut bytes = self.bytes;
        self.rows.retain(|row| {
            let stays = !row.lock.is_free() || std::mem::take(&mut row.is_recent);
            bytes -= if stays { 0 } else { row.weight };
            stays
        });
        let enough = self.limit / 4 * 3;
        let mut spare = false;
        self.rows.retain(|row| {
            spare = !spare;
            let stays = bytes <= enough || !row.lock.is_free() || spare;
            bytes -= if stays { 0 } else { row.weight };
            stays
        });
        self.bytes = bytes;
    }
}

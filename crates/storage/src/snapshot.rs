//! A partition as it was at one LSN.
//!
//! Flushes never pass the oldest snapshot, so tables plus overlay up to its LSN
//! is the snapshot, however long a scan takes. A snapshot that is held for over
//! 30 seconds, or that holds up a quarter of the log budget, expires: its reads
//! then answer `SnapshotExpired`, never a mixture of two states.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use steadfast_core::id::{Lsn, TableId};
use steadfast_core::limits;

use crate::engine::{Scan, TableRow};
use crate::error::{Error, ErrorKind, Result};
use crate::ledger::Ledger;
use crate::overlay::OverlayLayer;
use crate::partition_state::PartitionState;
use crate::state::{Pin, State};

/// A consistent view of a partition. Dropping it lets flushes pass.
pub struct Snapshot {
    ledger: Arc<PartitionState>,
    pin: Arc<Pin>,
}

impl Ledger {
    /// Pins the durable state as it is now.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let ledger = Arc::clone(&self.shared);
        drop(ledger.read_checked()?);
        let since = ledger.node.clock.monotonic();
        let mut state = ledger.write();
        let pin = Arc::new(Pin {
            lsn: state.durable_lsn,
            since,
            appended: state.appended,
            expired: AtomicBool::new(false),
        });
        *state.pins.entry(pin.lsn).or_default() += 1;
        state.held.push(Arc::downgrade(&pin));
        drop(state);
        Ok(Snapshot { ledger, pin })
    }
}

impl Snapshot {
    /// The last transaction that the snapshot shows.
    pub fn lsn(&self) -> Lsn {
        self.pin.lsn
    }

    /// Reads a row.
    pub async fn get(&self, table: TableId, key: &[u8]) -> Result<Option<Bytes>> {
        let value = self.ledger.get_at(table, key, self.pin.lsn).await?;
        self.check()?;
        Ok(value)
    }

    /// Reads rows in key order, `limit` at most and 10,000 at most: go on behind
    /// the last key for more.
    pub async fn scan(&self, table: TableId, range: Scan) -> Result<Vec<TableRow>> {
        self.read(table, range, ScanColumns::Rows).await
    }

    /// Reads the keys of those rows; values stay where they are.
    pub async fn scan_keys(&self, table: TableId, range: Scan) -> Result<Vec<Bytes>> {
        let rows = self.read(table, range, ScanColumns::Keys).await?;
        Ok(rows.into_iter().map(|row| row.key).collect())
    }

    async fn read(&self, table: TableId, range: Scan, want: ScanColumns) -> Result<Vec<TableRow>> {
        let limit = range.limit.min(limits::SCAN_ROWS);
        let Scan { mut from, to, .. } = range;
        let mut rows = Vec::new();
        while rows.len() < limit && !is_empty(&from, &to) {
            let limit = limit - rows.len();
            let part = self.part(table, &from, &to, limit, want).await?;
            rows.extend(part.rows);
            match part.next {
                Some(next) => from = next,
                None => break,
            }
        }
        rows.truncate(limit);
        self.check()?;
        Ok(rows)
    }

    /// Merges one page of the tables with the overlay before it.
    async fn part(
        &self,
        table: TableId,
        from: &Bound<Bytes>,
        to: &Bound<Bytes>,
        limit: usize,
        want: ScanColumns,
    ) -> Result<ScanPage> {
        // The overlay first: what is flushed meanwhile is then in both.
        let layer = {
            let state = self.ledger.read_checked()?;
            let range = (as_slice(from), as_slice(to));
            state.overlay.layer(table, range, self.pin.lsn, limit)
        };
        let mut tables = Vec::new();
        if !layer.hides_tables {
            let range = Scan {
                from: from.clone(),
                to: to.clone(),
                limit,
            };
            let engine = &self.ledger.node.engine;
            let partition = self.ledger.partition;
            tables = match want {
                ScanColumns::Rows => engine.scan(partition, table, range).await?,
                ScanColumns::Keys => {
                    let keys = engine.scan_keys(partition, table, range).await?;
                    keys.into_iter().map(without_value).collect()
                }
            };
        }
        let is_last = tables.len() < limit;
        Ok(merge(layer, tables, is_last))
    }

    fn check(&self) -> Result<()> {
        let partition = self.ledger.partition;
        let age = self
            .ledger
            .node
            .clock
            .monotonic()
            .saturating_sub(self.pin.since);
        if age > limits::SNAPSHOT_AGE || self.pin.expired.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::SnapshotExpired { partition }));
        }
        self.ledger.read_checked().map(drop)
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let mut state = self.ledger.write();
        if !self.pin.expired.load(Ordering::Acquire) {
            unpin(&mut state, self.pin.lsn);
        }
        let pin = Arc::as_ptr(&self.pin);
        state.held.retain(|held| held.as_ptr() != pin);
        drop(state);
        self.ledger.node.budget.pressure.notify_one();
    }
}

/// Ends the snapshots of a partition that are too old or hold up too much.
pub(crate) fn expire(ledger: &PartitionState) {
    let now = ledger.node.clock.monotonic();
    let quarter = ledger.node.budget.target / 4;
    let mut state = ledger.write();
    let held: Vec<_> = state
        .held
        .iter()
        .filter_map(std::sync::Weak::upgrade)
        .collect();
    for pin in held {
        let is_old = now.saturating_sub(pin.since) > limits::SNAPSHOT_AGE;
        let is_heavy = state.appended - pin.appended > quarter;
        if (is_old || is_heavy) && !pin.expired.swap(true, Ordering::AcqRel) {
            unpin(&mut state, pin.lsn);
        }
    }
}

fn unpin(state: &mut State, lsn: Lsn) {
    if let Some(count) = state.pins.get_mut(&lsn) {
        *count -= 1;
        if *count == 0 {
            state.pins.remove(&lsn);
        }
    }
}

/// Whether a scan reads rows or keys from the tables.
#[derive(Clone, Copy)]
enum ScanColumns {
    Rows,
    Keys,
}

fn without_value(key: Bytes) -> TableRow {
    let value = Bytes::new();
    TableRow { key, value }
}

/// Rows of a range, and where to go on.
struct ScanPage {
    rows: Vec<TableRow>,
    next: Option<Bound<Bytes>>,
}

fn merge(layer: OverlayLayer, tables: Vec<TableRow>, tables_end: bool) -> ScanPage {
    let last_of_tables = tables
        .last()
        .map(|row| row.key.clone())
        .filter(|_| !tables_end);
    let next = match (&layer.complete_before, last_of_tables) {
        (None, None) => None,
        (Some(key), None) => Some(Bound::Included(key.clone())),
        (None, Some(last)) => Some(Bound::Excluded(last)),
        (Some(key), Some(last)) if *key <= last => Some(Bound::Included(key.clone())),
        (Some(_), Some(last)) => Some(Bound::Excluded(last)),
    };
    let is_known = |key: &Bytes| match &next {
        Some(Bound::Included(bound)) => key < bound,
        Some(Bound::Excluded(bound)) => key <= bound,
        _ => true,
    };
    let mut merged = layer.rows;
    for row in tables {
        merged.entry(row.key).or_insert(Some(row.value));
    }
    let rows = merged.into_iter().filter(|(key, _)| is_known(key));
    let rows = rows.filter_map(|(key, value)| value.map(|value| TableRow { key, value }));
    ScanPage {
        rows: rows.collect(),
        next,
    }
}

fn is_empty(from: &Bound<Bytes>, to: &Bound<Bytes>) -> bool {
    match (from, to) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (
            Bound::Included(from) | Bound::Excluded(from),
            Bound::Included(to) | Bound::Excluded(to),
        ) => from >= to,
    }
}

fn as_slice(bound: &Bound<Bytes>) -> Bound<&[u8]> {
    bound.as_ref().map(|bytes| bytes.as_ref())
}

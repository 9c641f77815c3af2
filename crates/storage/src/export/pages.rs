//! All rows of a partition, page by page.
//!
//! Each page is a snapshot of its own, held for as long as it takes to read it: so
//! flushes go on, and no snapshot expires on a large partition. The rows of one
//! page decide how many the next one reads.

use std::ops::Bound;

use bytes::Bytes;
use steadfast_core::id::TableId;
use steadfast_core::limits;

use crate::engine::{Scan, TableRow};
use crate::error::{Error, ErrorKind, Result};
use crate::ledger::Ledger;

/// How often a page is tried with fewer rows.
const ATTEMPTS: usize = 6;

impl Ledger {
    /// Tables that may have rows, in order.
    pub fn tables(&self) -> Result<Vec<TableId>> {
        let state = self.shared.read_checked()?;
        let partition = self.shared.partition;
        let Some(flushed) = &state.tables else {
            return Err(Error::new(ErrorKind::TablesUnknown { partition }));
        };
        let mut tables = state.overlay.tables();
        tables.extend(flushed);
        Ok(tables.into_iter().collect())
    }

    /// Sets which tables have flushed rows, from an authoritative source; not while the
    /// partition is being flushed.
    pub fn set_tables(&self, flushed: Vec<TableId>) {
        self.shared.write().tables = Some(flushed.into_iter().collect());
    }
}

/// A table that is read from its first row to its last.
pub struct Pages<'a> {
    ledger: &'a Ledger,
    table: TableId,
    from: Option<Bound<Bytes>>,
    limit: usize,
}

impl<'a> Pages<'a> {
    /// Begins before the first row.
    pub fn new(ledger: &'a Ledger, table: TableId) -> Self {
        Self {
            ledger,
            table,
            from: Some(Bound::Unbounded),
            limit: 16,
        }
    }

    /// The next rows; `None` behind the last one.
    pub async fn next(&mut self) -> Result<Option<Vec<TableRow>>> {
        let Some(from) = self.from.take() else {
            return Ok(None);
        };
        let rows = self.read(&from).await?;
        let last = rows.last().filter(|_| rows.len() == self.limit);
        self.from = last.map(|row| Bound::Excluded(row.key.clone()));
        self.limit = next_limit(self.limit, &rows);
        Ok(Some(rows))
    }

    async fn read(&mut self, from: &Bound<Bytes>) -> Result<Vec<TableRow>> {
        let mut attempts = 0;
        loop {
            let range = Scan {
                from: from.clone(),
                to: Bound::Unbounded,
                limit: self.limit,
            };
            let snapshot = self.ledger.snapshot()?;
            match snapshot.scan(self.table, range).await {
                // Writes were so frequent that the snapshot held up the log and expired.
                Err(error)
                    if matches!(error.kind(), ErrorKind::SnapshotExpired { .. })
                        && attempts < ATTEMPTS =>
                {
                    attempts += 1;
                    self.limit = (self.limit / 4).max(1);
                }
                done => return done,
            }
        }
    }
}

/// How many rows to read next, so that a page of the largest of them fits.
fn next_limit(limit: usize, rows: &[TableRow]) -> usize {
    let sizes = rows.iter().map(|row| row.key.len() + row.value.len());
    let largest = sizes.max().unwrap_or(0).max(1);
    let fitting = limits::BACKUP_PAGE_BYTES / largest;
    fitting.clamp(1, (limit * 4).min(limits::SCAN_ROWS))
}

//! Pages of a collection as it was at one LSN.
//!
//! Rows come from the transaction's snapshot, in the order of their keys, with the
//! transaction's own changes laid over them. Nothing is locked. Values of rows
//! that a filter leaves out are not read.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use steadfast_core::id::TableId;
use steadfast_core::limits;
use steadfast_storage::engine::Scan;

use crate::error::Result;
use crate::transaction::Tx;
use crate::writeset::RowWrite;

/// The position of a scan.
#[derive(Clone, Debug)]
pub(crate) struct ScanPosition {
    from: Bound<Bytes>,
    to: Bound<Bytes>,
    page: usize,
    is_done: bool,
}

/// The requested contents of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageContent {
    Rows,
    /// Keys, and values only where the transaction has written them.
    Keys,
}

/// One row of a page.
#[derive(Clone)]
pub(crate) enum ScannedRow {
    /// As the snapshot has it.
    Stored(Bytes),
    /// In the snapshot, its value not read.
    Key,
    /// As this transaction has changed it.
    Own(RowWrite),
}

impl ScannedRow {
    /// Whether the transaction has deleted it.
    pub(crate) fn is_deleted(&self) -> bool {
        matches!(self, Self::Own(change) if change.value.is_none())
    }
}

impl ScanPosition {
    pub(crate) fn new(from: Bound<Bytes>, to: Bound<Bytes>, page: usize) -> Self {
        let is_done = is_empty(&from, &to);
        Self {
            from,
            to,
            page: page.clamp(1, limits::SCAN_ROWS),
            is_done,
        }
    }

    /// The next rows, with those that the transaction has deleted; `None` at the end.
    /// A page may be empty.
    pub(crate) async fn next(
        &mut self,
        tx: &mut Tx,
        table: TableId,
        want: PageContent,
    ) -> Result<Option<BTreeMap<Bytes, ScannedRow>>> {
        if self.is_done {
            return Ok(None);
        }
        let range = Scan {
            from: self.from.clone(),
            to: self.to.clone(),
            limit: self.page,
        };
        let mut page: BTreeMap<_, _> = match want {
            PageContent::Rows => {
                let rows = tx.snapshot_scan(table, range).await?.into_iter();
                rows.map(|row| (row.key, ScannedRow::Stored(row.value)))
                    .collect()
            }
            PageContent::Keys => {
                let keys = tx.snapshot_keys(table, range).await?.into_iter();
                keys.map(|key| (key, ScannedRow::Key)).collect()
            }
        };
        let is_full = page.len() >= self.page;
        let last = page.keys().next_back().cloned().filter(|_| is_full);
        let until = last.clone().map_or(self.to.clone(), Bound::Included);
        for (key, change) in tx.writes.range(table, (self.from.clone(), until)) {
            page.insert(key.clone(), ScannedRow::Own(change.clone()));
        }
        match last {
            Some(last) => self.from = Bound::Excluded(last),
            None => self.is_done = true,
        }
        self.is_done |= is_empty(&self.from, &self.to);
        Ok(Some(page))
    }

    /// How many rows there are from here to the end.
    pub(crate) async fn count(&mut self, tx: &mut Tx, table: TableId) -> Result<u64> {
        let mut count = 0;
        while let Some(page) = self.next(tx, table, PageContent::Keys).await? {
            count += page.values().filter(|found| !found.is_deleted()).count() as u64;
        }
        Ok(count)
    }
}

/// The ranges that hold the wanted rows of a page and no others: neighbours share
/// one. Rows of the transaction's own need not be read.
pub(crate) fn value_ranges<'a>(
    page: impl Iterator<Item = (&'a Bytes, &'a ScannedRow, bool)>,
) -> Vec<Scan> {
    let mut runs: Vec<Scan> = Vec::new();
    let mut goes_on = false;
    for (key, found, is_wanted) in page {
        match found {
            ScannedRow::Key if is_wanted && goes_on => {
                let run = runs.last_mut().expect("it goes on");
                run.to = Bound::Included(key.clone());
                run.limit += 1;
            }
            ScannedRow::Key if is_wanted => {
                let (from, to) = (Bound::Included(key.clone()), Bound::Included(key.clone()));
                runs.push(Scan { from, to, limit: 1 });
                goes_on = true;
            }
            // What the transaction has put or deleted may be in the snapshot, too.
            _ => goes_on = false,
        }
    }
    runs
}

/// The bounds of all keys that begin with `prefix`.
pub(crate) fn beginning_with(prefix: &[u8]) -> (Bound<Bytes>, Bound<Bytes>) {
    let from = Bound::Included(Bytes::copy_from_slice(prefix));
    let mut after = prefix.to_vec();
    while let Some(last) = after.pop() {
        if last < u8::MAX {
            after.push(last + 1);
            return (from, Bound::Excluded(after.into()));
        }
    }
    (from, Bound::Unbounded)
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

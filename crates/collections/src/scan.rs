//! Pages of a collection as it was at one LSN.
//!
//! Rows come from the transaction's snapshot, in the order of their keys, with the
//! transaction's own changes laid over them. Nothing is locked. Values of rows
//! that a filter leaves out are not decoded.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use steadfast_core::id::Table;
use steadfast_core::limits;
use steadfast_storage::engine::Scan;

use crate::error::Result;
use crate::transaction::Tx;
use crate::writeset::Change;

/// Where a scan stands.
#[derive(Clone, Debug)]
pub(crate) struct Position {
    from: Bound<Bytes>,
    to: Bound<Bytes>,
    page: usize,
    is_done: bool,
}

/// One row of a page.
#[derive(Clone)]
pub(crate) enum Found {
    /// As the snapshot has it.
    Stored(Bytes),
    /// As this transaction has changed it.
    Own(Change),
}

impl Position {
    pub(crate) fn new(from: Bound<Bytes>, to: Bound<Bytes>, page: usize) -> Self {
        let is_done = is_empty(&from, &to);
        Self {
            from,
            to,
            page: page.clamp(1, limits::SCAN_ROWS),
            is_done,
        }
    }

    /// The next rows; `None` at the end. A page may be empty.
    pub(crate) async fn next(
        &mut self,
        tx: &mut Tx<'_>,
        table: Table,
    ) -> Result<Option<BTreeMap<Bytes, Found>>> {
        if self.is_done {
            return Ok(None);
        }
        let range = Scan {
            from: self.from.clone(),
            to: self.to.clone(),
            limit: self.page,
        };
        let rows = tx.snapshot_scan(table, range).await?;
        let is_full = rows.len() >= self.page;
        let last = rows.last().map(|row| row.key.clone()).filter(|_| is_full);
        let until = last.clone().map_or(self.to.clone(), Bound::Included);
        let stored = rows.into_iter();
        let mut page: BTreeMap<_, _> = stored
            .map(|row| (row.key, Found::Stored(row.value)))
            .collect();
        for (key, change) in tx.writes.range(table, (self.from.clone(), until)) {
            page.insert(key.clone(), Found::Own(change.clone()));
        }
        page.retain(|_, found| !matches!(found, Found::Own(change) if change.value.is_none()));
        match last {
            Some(last) => self.from = Bound::Excluded(last),
            None => self.is_done = true,
        }
        self.is_done |= is_empty(&self.from, &self.to);
        Ok(Some(page))
    }
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

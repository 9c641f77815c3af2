//! Rows pinned for blocked commands.
//!
//! The row cache may evict a row before the command that needs it runs again, so the
//! row is pinned here until then. The loop is the only writer of these rows: its writes
//! replace what is being loaded.

use std::collections::HashMap;

use bytes::Bytes;
use steadfast_core::id::TableId;

/// A row's table and key.
pub(crate) type RowAddress = (TableId, Bytes);

#[derive(Default)]
pub(crate) struct PinnedRows {
    rows: HashMap<RowAddress, PinnedRow>,
}

struct PinnedRow {
    /// How many blocked commands need it.
    wanted: u32,
    /// `None` while it is being loaded.
    value: Option<Option<Bytes>>,
}

impl PinnedRows {
    /// A load of the row begins.
    pub(crate) fn want(&mut self, row: &RowAddress) {
        let held = self.rows.entry(row.clone()).or_insert(PinnedRow {
            wanted: 0,
            value: None,
        });
        held.wanted += 1;
    }

    /// The row was loaded; ignored if it was written in the meantime.
    pub(crate) fn loaded(&mut self, row: &RowAddress, value: Option<Bytes>) {
        if let Some(held) = self.rows.get_mut(row) {
            held.value.get_or_insert(value);
        }
    }

    /// The loop has written the row.
    pub(crate) fn written(&mut self, table: TableId, key: &Bytes, value: Option<&Bytes>) {
        if self.rows.is_empty() {
            return;
        }
        if let Some(held) = self.rows.get_mut(&(table, key.clone())) {
            held.value = Some(value.cloned());
        }
    }

    /// A command that needed the row has run.
    pub(crate) fn release(&mut self, row: &RowAddress) {
        if let Some(held) = self.rows.get_mut(row) {
            held.wanted -= 1;
            if held.wanted == 0 {
                self.rows.remove(row);
            }
        }
    }

    /// The row, if it is pinned; the inner `None`: there is no such row.
    pub(crate) fn get(&self, table: TableId, key: &[u8]) -> Option<Option<Bytes>> {
        if self.rows.is_empty() {
            return None;
        }
        let row = (table, Bytes::copy_from_slice(key));
        self.rows.get(&row)?.value.clone()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

//! Several runs read as one.
//!
//! Newer runs hide older ones, row by row and, where they have cleared a table,
//! table by table. What comes out are the rows that are left, in order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use bytes::Bytes;
use steadfast_core::id::TableId;
use steadfast_storage::Result;
use steadfast_storage::body::{RowKey, table_of};

use crate::run::{RunChange, RunReader};

/// Runs, newest first, and where each of them stands.
pub(crate) struct RunMerger {
    runs: Vec<RunReader>,
    /// The next row of each run, by its rank.
    values: Vec<Option<Bytes>>,
    order: BinaryHeap<Reverse<(RowKey, usize)>>,
    /// The newest run that has cleared a table.
    clears: BTreeMap<TableId, usize>,
    next: Option<(RowKey, Bytes)>,
}

impl RunMerger {
    /// Merges runs, the newest first.
    pub(crate) fn new(runs: Vec<RunReader>) -> Result<Self> {
        let mut merge = Self {
            values: vec![None; runs.len()],
            runs,
            order: BinaryHeap::new(),
            clears: BTreeMap::new(),
            next: None,
        };
        for rank in 0..merge.runs.len() {
            merge.advance(rank)?;
        }
        merge.next = merge.find()?;
        Ok(merge)
    }

    /// The next row, without taking it.
    pub(crate) fn peek(&self) -> Option<&(RowKey, Bytes)> {
        self.next.as_ref()
    }

    /// The next row.
    pub(crate) fn next(&mut self) -> Result<Option<(RowKey, Bytes)>> {
        let following = match self.next {
            Some(_) => self.find()?,
            None => None,
        };
        Ok(std::mem::replace(&mut self.next, following))
    }

    fn find(&mut self) -> Result<Option<(RowKey, Bytes)>> {
        while let Some(Reverse((row, rank))) = self.order.pop() {
            let value = self.values[rank].take();
            self.advance(rank)?;
            // The same row in older runs is older.
            while let Some(Reverse((other, older))) = self.order.peek()
                && *other == row
            {
                let older = *older;
                self.order.pop();
                self.advance(older)?;
            }
            let table = table_of(&row);
            let is_hidden = self.clears.get(&table).is_some_and(|newer| *newer < rank);
            if let Some(value) = value.filter(|_| !is_hidden) {
                return Ok(Some((row, value)));
            }
        }
        Ok(None)
    }

    /// Reads the next row of a run. A clear comes before the rows of its table in
    /// every run, so it is known before any row that it hides is found.
    fn advance(&mut self, rank: usize) -> Result<()> {
        while let Some(step) = self.runs[rank].next()? {
            match step {
                RunChange::Row(row, value) => {
                    self.values[rank] = value;
                    self.order.push(Reverse((row, rank)));
                    return Ok(());
                }
                RunChange::Clear(table) => {
                    let newest = self.clears.entry(table).or_insert(rank);
                    *newest = rank.min(*newest);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::BackupFolder;
    use crate::manifest_file::FileContent;
    use crate::run::RunWriter;
    use proptest::prelude::*;
    use steadfast_storage::body::row_key;

    /// What one run does to a few rows of a few tables.
    #[derive(Clone, Debug, Default)]
    struct TestRun {
        clears: Vec<u32>,
        rows: BTreeMap<(u32, Vec<u8>), Option<Vec<u8>>>,
    }

    fn runs() -> impl Strategy<Value = Vec<TestRun>> {
        let key = proptest::collection::vec(0u8..3, 0..3);
        let value = proptest::option::of(proptest::collection::vec(any::<u8>(), 0..4));
        let rows = proptest::collection::btree_map((0u32..3, key), value, 0..12);
        let clears = proptest::collection::btree_set(0u32..3, 0..2);
        let run = (clears, rows).prop_map(|(clears, rows)| TestRun {
            clears: clears.into_iter().collect(),
            rows,
        });
        proptest::collection::vec(run, 0..5)
    }

    fn write(run: &TestRun, folder: &BackupFolder, name: &str) {
        let mut writer = RunWriter::create(folder, name, FileContent::Delta).unwrap();
        for table in 0..3 {
            if run.clears.contains(&table) {
                writer.clear(TableId(table)).unwrap();
            }
            for ((_, key), value) in run.rows.iter().filter(|((t, _), _)| *t == table) {
                let value = value.clone().map(Bytes::from);
                let row = row_key(TableId(table), key);
                writer.row(&row, value.as_ref()).unwrap();
            }
        }
        writer.finish(1).unwrap();
    }

    proptest! {
        #[test]
        fn merged_runs_are_what_they_do_one_after_the_other(runs in runs()) {
            let place = tempfile::tempdir().unwrap();
            let folder = BackupFolder::new(place.path(), None);
            let mut expected = BTreeMap::new();
            let mut readers = Vec::new();
            for (number, run) in runs.iter().enumerate() {
                let name = number.to_string();
                write(run, &folder, &name);
                readers.insert(0, RunReader::open(&folder, &name, FileContent::Delta).unwrap());
                expected.retain(|(table, _), _| !run.clears.contains(table));
                for (row, value) in &run.rows {
                    match value {
                        Some(value) => expected.insert(row.clone(), value.clone()),
                        None => expected.remove(row),
                    };
                }
            }
            let mut merge = RunMerger::new(readers).unwrap();
            let mut found = Vec::new();
            while let Some((row, value)) = merge.next().unwrap() {
                found.push((row, value));
            }
            let expected: Vec<_> = expected
                .into_iter()
                .map(|((table, key), value)| (row_key(TableId(table), &key), Bytes::from(value)))
                .collect();
            prop_assert_eq!(found, expected);
        }
    }
}

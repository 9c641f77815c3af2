//! What is committed while a backup reads.
//!
//! Changed rows are folded in memory, per partition; over the limit, those of the
//! largest partition are written to a sorted run, newer than all earlier ones. Event
//! batches go to a file at once. So memory is bounded however long the backup takes.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use steadfast_core::id::{Partition, TableId};
use steadfast_core::limits;
use steadfast_storage::Result;
use steadfast_storage::body::{EntryBody, RedoOperation, RowKey, operations, row_key, table_of};
use steadfast_storage::export::TappedEntry;

use crate::events::EventWriter;
use crate::folder::BackupFolder;
use crate::manifest_file::{FileContent, ManifestFile};
use crate::run::RunWriter;

/// Changes of all partitions since the tap was opened.
pub(crate) struct Deltas {
    folder: BackupFolder,
    /// Changed bytes at which the largest partition is written out.
    limit: usize,
    bytes: usize,
    changed: BTreeMap<Partition, Delta>,
    /// How many runs each partition has by now.
    runs: BTreeMap<Partition, u32>,
    tails: BTreeMap<Partition, EventWriter>,
    files: Vec<ManifestFile>,
}

/// Changes of one partition, the last one of each row.
#[derive(Default)]
struct Delta {
    rows: BTreeMap<RowKey, Option<Bytes>>,
    clears: BTreeSet<TableId>,
    /// Bytes that the rows keep in memory.
    bytes: usize,
}

impl Deltas {
    pub(crate) fn new(folder: &BackupFolder) -> Self {
        Self {
            folder: folder.clone(),
            limit: limits::BACKUP_DELTA_BYTES,
            bytes: 0,
            changed: BTreeMap::new(),
            runs: BTreeMap::new(),
            tails: BTreeMap::new(),
            files: Vec::new(),
        }
    }

    /// Folds an entry in.
    pub(crate) fn absorb(&mut self, tapped: TappedEntry) -> Result<()> {
        let partition = tapped.partition;
        if !tapped.batches.is_empty() {
            let name = || format!("{:08x}.tail", partition.0);
            let tail = self.tails.entry(partition);
            let tail =
                tail.or_insert_with(|| EventWriter::new(&self.folder, name(), FileContent::Tail));
            for batch in &tapped.batches {
                tail.batch(batch)?;
            }
        }
        let body = EntryBody::decode(tapped.body).expect("encoded by the ledger that committed it");
        let delta = self.changed.entry(partition).or_default();
        for transaction in body.transactions {
            self.bytes += transaction.operations.len();
            delta.apply(transaction.operations);
        }
        if self.bytes > self.limit {
            self.write_largest()?;
        }
        Ok(())
    }

    /// Writes everything out; answers the files and how many events they hold.
    pub(crate) fn finish(mut self) -> Result<(Vec<ManifestFile>, u64)> {
        while !self.changed.is_empty() {
            self.write_largest()?;
        }
        let mut events = 0;
        for (partition, tail) in std::mem::take(&mut self.tails) {
            events += tail.events;
            self.files.extend(tail.finish(partition.0)?);
        }
        Ok((self.files, events))
    }

    fn write_largest(&mut self) -> Result<()> {
        let largest = self.changed.iter().max_by_key(|(_, delta)| delta.bytes);
        let Some(partition) = largest.map(|(partition, _)| *partition) else {
            return Ok(());
        };
        let Some(delta) = self.changed.remove(&partition) else {
            return Ok(());
        };
        self.bytes -= delta.bytes;
        if delta.is_empty() {
            return Ok(());
        }
        let number = self.runs.entry(partition).or_default();
        let name = format!("{:08x}.{number}.delta", partition.0);
        *number += 1;
        let run = RunWriter::create(&self.folder, &name, FileContent::Delta)?;
        self.files.push(delta.write(run, partition)?);
        Ok(())
    }
}

impl Delta {
    fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.clears.is_empty()
    }

    fn apply(&mut self, bytes: Bytes) {
        self.bytes += bytes.len();
        for operation in operations(bytes) {
            match operation.expect("checked when the body was decoded") {
                RedoOperation::Put(row, value) => drop(self.rows.insert(row, Some(value))),
                RedoOperation::Delete(row) => drop(self.rows.insert(row, None)),
                RedoOperation::Clear(table) => self.clear(table),
                // Where streams begin is noted when the tap is closed.
                RedoOperation::Trim(..) => {}
            }
        }
    }

    fn clear(&mut self, table: TableId) {
        let mut later = self.rows.split_off(&row_key(table, &[]));
        if let Some(next) = table.0.checked_add(1).map(TableId) {
            self.rows.append(&mut later.split_off(&row_key(next, &[])));
        }
        self.clears.insert(table);
    }

    fn write(self, mut run: RunWriter, partition: Partition) -> Result<ManifestFile> {
        let mut clears = self.clears.into_iter().peekable();
        for (row, value) in &self.rows {
            while let Some(table) = clears.next_if(|table| *table <= table_of(row)) {
                run.clear(table)?;
            }
            run.row(row, value.as_ref())?;
        }
        for table in clears {
            run.clear(table)?;
        }
        run.finish(partition.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::RunMerger;
    use crate::run::RunReader;
    use steadfast_core::id::Lsn;
    use steadfast_storage::Writes;
    use steadfast_storage::body::Transaction;

    fn entry(writes: Writes) -> TappedEntry {
        let transaction = Transaction {
            id: 0,
            operations: writes.into_redo(),
        };
        let body = EntryBody {
            first_lsn: Lsn(1),
            transactions: vec![transaction],
            ..EntryBody::default()
        };
        TappedEntry {
            partition: Partition(1),
            body: body.encode(),
            batches: Vec::new(),
        }
    }

    #[test]
    fn small_runs_one_after_the_other_hold_the_last_state() {
        let place = tempfile::tempdir().unwrap();
        let folder = BackupFolder::new(place.path(), None);
        let mut deltas = Deltas::new(&folder);
        deltas.limit = 100;
        let mut expected = BTreeMap::new();
        for number in 0..200u32 {
            let mut writes = Writes::new();
            let table = TableId(number % 3);
            if number.is_multiple_of(50) {
                writes.clear(table);
                expected.retain(|row, _| table_of(row) != table);
            }
            let (key, value) = ([number as u8 % 17], number.to_le_bytes());
            writes.put(table, &key, &value);
            let value = Bytes::copy_from_slice(&value);
            expected.insert(row_key(table, &key), value);
            let gone = [(number % 13) as u8];
            writes.delete(TableId(1), &gone);
            expected.remove(&row_key(TableId(1), &gone));
            deltas.absorb(entry(writes)).unwrap();
        }
        let (files, _) = deltas.finish().unwrap();
        assert!(files.len() > 10, "{} runs", files.len());
        let open =
            |file: &ManifestFile| RunReader::open(&folder, &file.name, FileContent::Delta).unwrap();
        let mut merge = RunMerger::new(files.iter().rev().map(open).collect()).unwrap();
        let mut found = BTreeMap::new();
        while let Some((row, value)) = merge.next().unwrap() {
            found.insert(row, value);
        }
        assert_eq!(found, expected);
    }
}

//! What differs between rows and the chain below them.
//!
//! Both come in order, so one pass over both finds it: rows that are new or have
//! another value, and rows that were deleted.

use bytes::Bytes;
use steadfast_storage::Result;
use steadfast_storage::body::RowKey;

use crate::folder::BackupFolder;
use crate::manifest_file::{FileContent, ManifestFile};
use crate::merge::RunMerger;
use crate::run::RunWriter;

/// Rows that differ from those below.
pub(crate) struct RowDiff {
    folder: BackupFolder,
    name: String,
    /// Made with the first change.
    run: Option<RunWriter>,
    below: RunMerger,
}

impl RowDiff {
    pub(crate) fn new(folder: &BackupFolder, name: String, below: RunMerger) -> Self {
        Self {
            folder: folder.clone(),
            name,
            run: None,
            below,
        }
    }

    /// Deletes the rows of the chain that come before `row`, or all that are left,
    /// at most `limit`; answers whether there may be more.
    pub(crate) fn delete_before(&mut self, row: Option<&RowKey>, limit: u64) -> Result<bool> {
        for _ in 0..limit {
            let is_before = |(found, _): &&(RowKey, Bytes)| row.is_none_or(|row| found < row);
            let Some((gone, _)) = self.below.peek().filter(is_before).cloned() else {
                return Ok(false);
            };
            self.below.next()?;
            self.run()?.row(&gone, None)?;
        }
        Ok(true)
    }

    /// Writes a row, unless the chain has it with the same value.
    pub(crate) fn put(&mut self, row: &RowKey, value: &Bytes) -> Result<()> {
        if let Some((found, _)) = self.below.peek()
            && found == row
            && let Some((_, known)) = self.below.next()?
            && known == *value
        {
            return Ok(());
        }
        self.run()?.row(row, Some(value))
    }

    /// The file, if anything differs.
    pub(crate) fn finish(self, partition: u32) -> Result<Option<ManifestFile>> {
        self.run.map(|run| run.finish(partition)).transpose()
    }

    fn run(&mut self) -> Result<&mut RunWriter> {
        if self.run.is_none() {
            let run = RunWriter::create(&self.folder, &self.name, FileContent::Rows)?;
            self.run = Some(run);
        }
        Ok(self.run.as_mut().expect("made above"))
    }
}

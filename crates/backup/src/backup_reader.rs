//! Reads partitions while they change.
//!
//! Rows come in pages and are compared with the chain below; events come from where
//! the chain ends. After each page the tap is emptied, so it never holds much.

use std::path::Path;

use steadfast_core::id::{Sequence, StreamId};
use steadfast_core::limits;
use steadfast_storage::body::row_key;
use steadfast_storage::engine::ReadPosition;
use steadfast_storage::export::{CutPoint, OpenTap, Pages};
use steadfast_storage::{Error, ErrorKind as StorageKind, Ledger, Result, StreamHead};
use tokio::sync::watch;

use crate::chain::BackupChain;
use crate::delta::Deltas;
use crate::error::ErrorKind;
use crate::events::EventWriter;
use crate::folder::BackupFolder;
use crate::manifest_file::{FileContent, ManifestFile};
use crate::merge::RunMerger;
use crate::progress::BackupProgress;
use crate::row_diff::RowDiff;
use crate::state_files::PartitionHeads;

/// The state of a backup while it reads.
pub(crate) struct BackupReader<'a> {
    /// The folder of backups.
    pub(crate) shelf: &'a Path,
    /// The backup.
    pub(crate) folder: BackupFolder,
    pub(crate) chain: Option<&'a BackupChain>,
    pub(crate) heads: PartitionHeads,
    pub(crate) tapping: OpenTap,
    pub(crate) deltas: Deltas,
    pub(crate) files: Vec<ManifestFile>,
    pub(crate) events: u64,
    pub(crate) progress: &'a watch::Sender<BackupProgress>,
    pub(crate) is_stopped: &'a dyn Fn() -> bool,
}

/// Rows between two checks for cancellation and new tap entries.
pub(crate) const CHECK_EVERY: u64 = 4096;

/// Ends a backup whose caller has dropped the future.
pub(crate) fn stop_if(is_stopped: &dyn Fn() -> bool) -> Result<()> {
    if is_stopped() {
        Err(Error::new(StorageKind::Closed))
    } else {
        Ok(())
    }
}

impl BackupReader<'_> {
    /// Takes entries from the tap.
    fn catch_up(&mut self) -> Result<()> {
        stop_if(self.is_stopped)?;
        for tapped in self.tapping.take()? {
            self.deltas.absorb(tapped)?;
        }
        Ok(())
    }

    /// Writes the rows of a partition that differ from the chain.
    pub(crate) async fn rows(&mut self, ledger: &Ledger) -> Result<()> {
        let partition = ledger.partition();
        let runs = match self.chain {
            Some(chain) => chain.runs(partition)?,
            None => Vec::new(),
        };
        let name = format!("{:08x}.rows", partition.0);
        let mut changes = RowDiff::new(&self.folder, name, RunMerger::new(runs)?);
        for table in ledger.tables()? {
            let mut pages = Pages::new(ledger, table);
            while let Some(page) = pages.next().await? {
                let mut bytes = 0;
                for row in &page {
                    bytes += (row.key.len() + row.value.len()) as u64;
                    let key = row_key(table, &row.key);
                    while changes.delete_before(Some(&key), CHECK_EVERY)? {
                        self.catch_up()?;
                    }
                    changes.put(&key, &row.value)?;
                }
                self.progress.send_modify(|progress| {
                    progress.rows += page.len() as u64;
                    progress.bytes += bytes;
                });
                self.catch_up()?;
            }
        }
        while changes.delete_before(None, CHECK_EVERY)? {
            self.catch_up()?;
        }
        self.files.extend(changes.finish(partition.0)?);
        Ok(())
    }

    /// Writes the events of a partition that the chain does not have, up to where
    /// the tap was opened.
    pub(crate) async fn events(&mut self, ledger: &Ledger, point: &CutPoint) -> Result<()> {
        let partition = ledger.partition();
        let name = format!("{:08x}.events", partition.0);
        let mut writer = EventWriter::new(&self.folder, name, FileContent::Events);
        for (stream, head) in &point.heads {
            let known = self.heads.get(&partition).and_then(|h| h.get(stream));
            let known = known.copied().unwrap_or_default();
            self.check_history(ledger, *stream, &known).await?;
            let mut next = known.next.max(head.first);
            while next < head.next {
                let from = ReadPosition::Sequence(next);
                let max_bytes = limits::BACKUP_PAGE_BYTES;
                let mut page = ledger.read_events(*stream, from, max_bytes).await?;
                // The rest comes out of the tap.
                page.retain(|batch| batch.first < head.next);
                let Some(last) = page.last() else {
                    break;
                };
                next = last.next();
                let (mut events, mut bytes) = (0, 0);
                for batch in &page {
                    writer.batch(batch)?;
                    events += u64::from(batch.count);
                    bytes += batch.weight() as u64;
                }
                self.progress.send_modify(|progress| {
                    progress.events += events;
                    progress.bytes += bytes;
                });
                self.catch_up()?;
            }
        }
        self.events += writer.events;
        self.files.extend(writer.finish(partition.0)?);
        Ok(())
    }

    /// Refuses a stream whose events are not those that the chain has: a folder that
    /// was put back and then went on has other events with the same numbers.
    async fn check_history(
        &self,
        ledger: &Ledger,
        stream: StreamId,
        known: &StreamHead,
    ) -> Result<()> {
        let Some(last) = known.next.0.checked_sub(1) else {
            return Ok(());
        };
        let from = ReadPosition::Sequence(Sequence(last));
        let page = ledger.read_events(stream, from, 1).await?;
        // If it was trimmed, no reader needs it.
        let found = page.first().filter(|batch| batch.first < known.next);
        let is_same = found.is_none_or(|batch| {
            (batch.next(), batch.end(), batch.time) == (known.next, known.end, known.time)
        });
        if is_same {
            return Ok(());
        }
        let partition = ledger.partition();
        Err(Error::new(ErrorKind::MissingFullBackup {
            path: self.shelf.to_path_buf(),
            why: format!(
                "stream {} of partition {partition} has other events",
                stream.0
            ),
        }))
    }

    /// Closes the tap and writes its last entries.
    pub(crate) fn finish(mut self) -> Result<(Vec<CutPoint>, Vec<ManifestFile>, u64)> {
        let (points, rest) = self.tapping.cut()?;
        for tapped in rest {
            self.deltas.absorb(tapped)?;
        }
        let (files, events) = self.deltas.finish()?;
        self.files.extend(files);
        Ok((points, self.files, self.events + events))
    }
}

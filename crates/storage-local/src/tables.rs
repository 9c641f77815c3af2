//! The tables: one LSM tree, filled by sorted ingestion.
//!
//! Rows come in only by ingestion: new files are written, synced and then made
//! visible together by one switch of the tree's version, so a flush is in the
//! tables as a whole or not at all, and there is no second journal. Compaction
//! runs on the flush thread, never beside an acknowledgement.

use std::collections::HashSet;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use lsm_tree::compaction::Leveled;
use lsm_tree::{AbstractTree, AnyTree, Cache, Config, Guard, SeqNo, SequenceNumberCounter};
use steadfast_core::id::{Partition, StreamId, TableId};
use steadfast_storage::engine::{Scan, TableRow};
use steadfast_storage::{Error, ErrorKind, Result};

/// First bytes of the kinds of rows.
const GROUP: u8 = 0;
const FENCE: u8 = 1;
const STREAM: u8 = 2;
const RECORD: u8 = 3;
const ROW: u8 = 16;

/// Bytes of a row's place: its kind, its partition, its table.
const PREFIX: usize = 9;

/// Runs of tables that a read may have to look through before they are merged.
const RUNS: u8 = 4;

/// Files that a merge aims for.
const FILE_BYTES: u64 = 64 * 1024 * 1024;

/// The tables of a folder.
pub(crate) struct Tables {
    tree: AnyTree,
    visible: SequenceNumberCounter,
    path: PathBuf,
}

/// A row of the control state.
pub(crate) enum ControlRow {
    /// The group up to which the rows of this kind are current.
    Group(Bytes),
    Fence(Partition, Bytes),
    Stream(Partition, StreamId, Bytes),
    Record(String, Bytes),
}

impl Tables {
    pub(crate) fn open(path: &Path, cache_bytes: u64) -> Result<Self> {
        let visible = SequenceNumberCounter::default();
        let sequence = SequenceNumberCounter::default();
        let tree = Config::new(path, sequence.clone(), visible.clone())
            .use_cache(Arc::new(Cache::with_capacity_bytes(cache_bytes)))
            .open()
            .map_err(|e| failed(path, "open", e))?;
        let highest = tree.get_highest_seqno().map_or(0, |seqno| seqno + 1);
        sequence.fetch_max(highest);
        visible.fetch_max(highest);
        Ok(Self {
            tree,
            visible,
            path: path.to_path_buf(),
        })
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        let found = self.tree.get(key, SeqNo::MAX);
        let found = found.map_err(|e| failed(&self.path, "read", e))?;
        Ok(found.map(Bytes::from))
    }

    /// Rows of one table of one partition.
    pub(crate) fn scan(
        &self,
        partition: Partition,
        table: TableId,
        range: &Scan,
    ) -> Result<Vec<TableRow>> {
        let found = self
            .tree
            .range(bounds(partition, table, range), SeqNo::MAX, None);
        let rows = found.take(range.limit).map(|row| {
            let (key, value) = row.into_inner()?;
            let (key, value) = (own_key(&key.into()), Bytes::from(value));
            Ok(TableRow { key, value })
        });
        let rows: lsm_tree::Result<Vec<_>> = rows.collect();
        rows.map_err(|e| failed(&self.path, "read", e))
    }

    /// The keys of those rows.
    pub(crate) fn scan_keys(
        &self,
        partition: Partition,
        table: TableId,
        range: &Scan,
    ) -> Result<Vec<Bytes>> {
        let found = self
            .tree
            .range(bounds(partition, table, range), SeqNo::MAX, None);
        let keys = found.take(range.limit);
        let keys = keys.map(|row| row.key().map(|key| own_key(&key.into())));
        let keys: lsm_tree::Result<Vec<_>> = keys.collect();
        keys.map_err(|e| failed(&self.path, "read", e))
    }

    /// Tables of a partition that have rows, found without reading the rows.
    pub(crate) fn tables(&self, partition: Partition) -> Result<Vec<TableId>> {
        let mut found = Vec::new();
        let mut from = Some(TableId(0));
        while let Some(table) = from {
            let start = row_prefix(partition, table).to_vec();
            let behind = after(&row_prefix(partition, TableId(0))[..5]);
            let mut rows = self.tree.range(start..behind, SeqNo::MAX, None);
            let Some(row) = rows.next() else {
                break;
            };
            let key = row.key().map_err(|e| failed(&self.path, "read", e))?;
            let damaged = || Error::corrupt(&self.path, 0, "a row has a malformed key");
            let number = key.get(5..).and_then(<[u8]>::first_chunk);
            let number = u32::from_be_bytes(*number.ok_or_else(damaged)?);
            found.push(TableId(number));
            from = number.checked_add(1).map(TableId);
        }
        Ok(found)
    }

    /// The full keys of all rows of one table.
    pub(crate) fn keys(&self, partition: Partition, table: TableId) -> Result<Vec<Bytes>> {
        let prefix = row_prefix(partition, table);
        let rows = self.tree.prefix(prefix, SeqNo::MAX, None);
        let keys = rows.map(|row| row.key().map(Bytes::from));
        let keys: std::result::Result<_, _> = keys.collect();
        keys.map_err(|e| failed(&self.path, "read", e))
    }

    /// Fences, streams and records as the last flush left them.
    pub(crate) fn control(&self) -> Result<Vec<ControlRow>> {
        let mut found = Vec::new();
        for row in self.tree.range(..[ROW], SeqNo::MAX, None) {
            let (key, value) = row
                .into_inner()
                .map_err(|e| failed(&self.path, "read", e))?;
            let damaged = || Error::corrupt(&self.path, 0, "a control row has a malformed key");
            found.push(control_row(&key, value.into()).ok_or_else(damaged)?);
        }
        Ok(found)
    }

    /// Adds rows, strictly ascending by key, all or none of them, durably. `pace`
    /// gets the number of bytes written, and may wait to slow the writing down.
    pub(crate) fn ingest(
        &self,
        rows: impl Iterator<Item = (Bytes, Option<Bytes>)>,
        mut pace: impl FnMut(usize),
    ) -> Result<()> {
        let done = self.try_ingest(rows, &mut pace);
        if done.is_err() {
            self.remove_orphans();
        }
        done
    }

    fn try_ingest(
        &self,
        rows: impl Iterator<Item = (Bytes, Option<Bytes>)>,
        pace: &mut impl FnMut(usize),
    ) -> Result<()> {
        let fail = |e| failed(&self.path, "write", e);
        let mut ingestion = self.tree.ingestion().map_err(fail)?;
        for (key, value) in rows {
            pace(key.len() + value.as_ref().map_or(0, Bytes::len));
            match value {
                Some(value) => ingestion.write(key, value),
                None => ingestion.write_tombstone(key),
            }
            .map_err(fail)?;
        }
        ingestion.finish().map_err(fail)
    }

    /// Removes files that a failed ingestion has begun: on a full disk they would take
    /// the space that was just freed. No other code creates files here.
    fn remove_orphans(&self) {
        let version = self.tree.current_version();
        let known: HashSet<u64> = version.iter_tables().map(lsm_tree::Table::id).collect();
        let folder = self.path.join("tables");
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| name.parse().ok());
            if id.is_some_and(|id| !known.contains(&id)) {
                // An orphan only takes space; the next open removes it.
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }

    /// Merges tables while there are too many.
    pub(crate) fn compact(&self) -> Result<()> {
        let strategy = Leveled::default()
            .with_l0_threshold(RUNS)
            .with_table_target_size(FILE_BYTES);
        let strategy = Arc::new(strategy);
        // Each step merges something or finds nothing to do.
        for _ in 0..8 {
            let before = self.tree.current_version().id();
            self.tree
                .compact(Arc::clone(&strategy) as _, self.visible.get())
                .map_err(|e| failed(&self.path, "compact", e))?;
            if self.tree.current_version().id() == before {
                break;
            }
        }
        Ok(())
    }
}

/// The key of a row.
pub(crate) fn row_key(partition: Partition, table: TableId, key: &[u8]) -> Bytes {
    [row_prefix(partition, table).as_slice(), key]
        .concat()
        .into()
}

/// The key of the group number.
pub(crate) fn group_key() -> Bytes {
    Bytes::from_static(&[GROUP])
}

/// The key of a partition's fence.
pub(crate) fn fence_key(partition: Partition) -> Bytes {
    [[FENCE].as_slice(), &partition.0.to_be_bytes()]
        .concat()
        .into()
}

/// The key of a stream's ends.
pub(crate) fn stream_key(partition: Partition, stream: StreamId) -> Bytes {
    let (partition, stream) = (partition.0.to_be_bytes(), stream.0.to_be_bytes());
    [[STREAM].as_slice(), &partition, &stream].concat().into()
}

/// The key of a cluster record.
pub(crate) fn record_key(key: &str) -> Bytes {
    [[RECORD].as_slice(), key.as_bytes()].concat().into()
}

/// A row's key without its place.
fn own_key(key: &Bytes) -> Bytes {
    key.slice(PREFIX..)
}

/// Where a range of rows lies.
fn bounds(partition: Partition, table: TableId, range: &Scan) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let prefix = row_prefix(partition, table);
    let join = |key: &Bytes| [prefix.as_slice(), key].concat();
    let from = match &range.from {
        Bound::Unbounded => Bound::Included(prefix.to_vec()),
        bound => bound.as_ref().map(join),
    };
    let to = match &range.to {
        Bound::Unbounded => Bound::Excluded(after(&prefix)),
        bound => bound.as_ref().map(join),
    };
    (from, to)
}

fn row_prefix(partition: Partition, table: TableId) -> [u8; PREFIX] {
    let mut prefix = [ROW; PREFIX];
    prefix[1..5].copy_from_slice(&partition.0.to_be_bytes());
    prefix[5..].copy_from_slice(&table.0.to_be_bytes());
    prefix
}

/// The first key behind all keys with this prefix.
fn after(prefix: &[u8]) -> Vec<u8> {
    let mut next = prefix.to_vec();
    while let Some(last) = next.last_mut() {
        match last.checked_add(1) {
            Some(value) => {
                *last = value;
                break;
            }
            None => {
                next.pop();
            }
        }
    }
    next
}

fn control_row(key: &[u8], value: Bytes) -> Option<ControlRow> {
    let u32_at = |at: usize| Some(u32::from_be_bytes(*key.get(at..)?.first_chunk()?));
    match *key.first()? {
        GROUP => Some(ControlRow::Group(value)),
        FENCE => Some(ControlRow::Fence(Partition(u32_at(1)?), value)),
        STREAM => {
            let (partition, stream) = (Partition(u32_at(1)?), StreamId(u32_at(5)?));
            Some(ControlRow::Stream(partition, stream, value))
        }
        RECORD => {
            let key = std::str::from_utf8(&key[1..]).ok()?;
            Some(ControlRow::Record(key.to_string(), value))
        }
        _ => None,
    }
}

/// Converts an error of the LSM tree.
fn failed(path: &Path, doing: &'static str, error: lsm_tree::Error) -> Error {
    match error {
        lsm_tree::Error::Io(error) => Error::io(path, doing, error),
        error => Error::caused(
            ErrorKind::Corrupt {
                file: path.to_path_buf(),
                offset: 0,
                what: "the tables cannot be read".into(),
            },
            error,
        ),
    }
}

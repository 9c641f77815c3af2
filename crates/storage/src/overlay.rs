//! Rows that are committed but not yet in the tables.
//!
//! One active generation takes writes; sealed ones wait to be flushed. A row has
//! one version per LSN that a read may still need: what is not durable yet, the
//! newest durable one, and those that a snapshot has pinned. A newer generation
//! hides an older one, and all of them hide the tables, so tables plus overlay up
//! to an LSN is the state at that LSN. Versions die with their generation, when the
//! flush that carried them is done.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::id::{EntryNumber, Lsn, Sequence, StreamId, TableId};

use crate::body::{RedoOperation, RowKey, split_row_key, table_of};
use crate::engine::FlushedRow;
use crate::sorted_key::{PrefixOrdered, Probe, SortedKey};

/// A lookup of a row in the overlay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OverlayLookup {
    Value(Bytes),
    Absent,
    /// Only the tables can tell.
    Unknown,
}

/// LSNs that snapshots hold, with how many hold each.
pub(crate) type Pins = BTreeMap<Lsn, usize>;

/// All generations of one partition.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    active: Generation,
    sealed: VecDeque<Arc<Generation>>,
    /// How many generations were dropped; shows readers that the tables have changed.
    pub(crate) drops: u64,
}

/// Writes between two seals.
#[derive(Clone, Debug, Default)]
pub(crate) struct Generation {
    rows: BTreeMap<SortedKey, RowVersions>,
    clears: BTreeMap<TableId, Vec<Lsn>>,
    trims: Vec<(Lsn, StreamId, Sequence)>,
    /// The last entry whose writes are here; set when sealed.
    pub(crate) up_to: EntryNumber,
    pub(crate) last_lsn: Lsn,
    /// Log bytes that the flush of this generation sets free.
    pub(crate) bytes: u64,
    /// The first group and entry that these bytes belong to.
    group: u64,
    first: EntryNumber,
}

/// The versions of one row, oldest first, the newest apart.
#[derive(Clone, Debug)]
struct RowVersions {
    newest: RowVersion,
    older: Vec<RowVersion>,
}

#[derive(Clone, Debug)]
struct RowVersion {
    lsn: Lsn,
    value: Option<Bytes>,
}

/// Part of a table as the overlay has it.
#[derive(Debug, Default)]
pub(crate) struct OverlayLayer {
    /// By key, without the table; `None` is a deleted row.
    pub(crate) rows: BTreeMap<Bytes, Option<Bytes>>,
    /// Rows are complete before this key; `None`: to the end of the range.
    pub(crate) complete_before: Option<Bytes>,
    /// A clear hides whatever the tables hold.
    pub(crate) hides_tables: bool,
}

impl Overlay {
    /// Adds one operation of the transaction at `lsn`.
    pub(crate) fn apply(&mut self, lsn: Lsn, operation: RedoOperation, durable: Lsn, pins: &Pins) {
        let active = &mut self.active;
        active.last_lsn = lsn;
        match operation {
            RedoOperation::Put(row, value) => active.set(row, lsn, Some(value), durable, pins),
            RedoOperation::Delete(row) => active.set(row, lsn, None, durable, pins),
            RedoOperation::Clear(table) => active.clear(table, lsn),
            RedoOperation::Trim(stream, first, _) => active.trims.push((lsn, stream, first)),
        }
    }

    /// Counts log bytes that the active generation keeps.
    pub(crate) fn add_bytes(&mut self, lsn: Lsn, bytes: u64, group: u64, entry: EntryNumber) {
        let active = &mut self.active;
        if active.bytes == 0 {
            active.group = group;
            active.first = entry;
        }
        active.last_lsn = lsn.max(active.last_lsn);
        active.bytes += bytes;
    }

    /// The oldest entry that is not flushed.
    pub(crate) fn oldest_entry(&self) -> Option<EntryNumber> {
        let active = (self.active.bytes > 0).then_some(self.active.first);
        self.sealed.front().map(|sealed| sealed.first).or(active)
    }

    /// The group that brought the oldest unflushed entry.
    pub(crate) fn oldest_group(&self) -> u64 {
        self.sealed.front().map_or(self.active.group, |g| g.group)
    }

    /// The row as it was at `at`.
    pub(crate) fn find(&self, row: &[u8], table: TableId, at: Lsn) -> OverlayLookup {
        for generation in self.newest_first() {
            match generation.find(row, table, at) {
                Some(Some(value)) => return OverlayLookup::Value(value),
                Some(None) => return OverlayLookup::Absent,
                None => {}
            }
        }
        OverlayLookup::Unknown
    }

    /// About `limit` rows of a range as they were at `at`.
    pub(crate) fn layer(
        &self,
        table: TableId,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        at: Lsn,
        limit: usize,
    ) -> OverlayLayer {
        let mut layer = OverlayLayer::default();
        for generation in self.newest_first() {
            generation.collect(table, range, at, limit, &mut layer);
            if generation.cleared_at(table, at).is_some() {
                layer.hides_tables = true;
                break;
            }
        }
        if let Some(bound) = &layer.complete_before {
            layer.rows.retain(|key, _| key < bound);
        }
        layer
    }

    /// Closes the active generation, whose last entry is `up_to`.
    pub(crate) fn seal(&mut self, up_to: EntryNumber) {
        if self.active.bytes == 0 {
            return;
        }
        let mut sealed = std::mem::take(&mut self.active);
        sealed.up_to = up_to;
        self.active.last_lsn = sealed.last_lsn;
        self.sealed.push_back(Arc::new(sealed));
    }

    /// The generation that is to be flushed first.
    pub(crate) fn oldest_sealed(&self) -> Option<&Arc<Generation>> {
        self.sealed.front()
    }

    /// Whether the active generation holds anything to flush.
    pub(crate) fn has_active(&self) -> bool {
        self.active.bytes > 0
    }

    /// Forgets the oldest sealed generation, after its flush.
    pub(crate) fn drop_oldest(&mut self) {
        self.sealed.pop_front();
        self.drops += 1;
    }

    /// Tables that some generation has rows of.
    pub(crate) fn tables(&self) -> BTreeSet<TableId> {
        let mut tables = BTreeSet::new();
        for generation in self.newest_first() {
            generation.collect_tables(&mut tables);
        }
        tables
    }

    /// Log bytes of all generations.
    pub(crate) fn bytes(&self) -> u64 {
        self.active.bytes + self.sealed.iter().map(|g| g.bytes).sum::<u64>()
    }

    /// Rolls back every write after `to`, which never became durable; the last
    /// committed entry is `last`.
    pub(crate) fn roll_back(&mut self, to: Lsn, last: EntryNumber) {
        self.active.roll_back(to);
        for sealed in &mut self.sealed {
            if sealed.up_to > last {
                let sealed = Arc::make_mut(sealed);
                sealed.roll_back(to);
                sealed.up_to = last;
            }
        }
    }

    fn newest_first(&self) -> impl Iterator<Item = &Generation> {
        std::iter::once(&self.active).chain(self.sealed.iter().rev().map(Arc::as_ref))
    }
}

impl Generation {
    /// What the tables need: clears, rows in order, and trims.
    pub(crate) fn fold(&self) -> (Vec<TableId>, Vec<FlushedRow>, Vec<(StreamId, Sequence)>) {
        let mut rows = Vec::with_capacity(self.rows.len());
        for (row, versions) in &self.rows {
            let (table, key) = split_row_key(row.row());
            let cleared = self.cleared_at(table, Lsn::MAX);
            if cleared.is_some_and(|lsn| versions.newest.lsn < lsn) {
                continue;
            }
            let value = versions.newest.value.clone();
            rows.push(FlushedRow { table, key, value });
        }
        let mut trims = BTreeMap::new();
        for (_, stream, first) in &self.trims {
            let known: &mut Sequence = trims.entry(*stream).or_default();
            *known = (*known).max(*first);
        }
        let clears = self.clears.keys().copied().collect();
        (clears, rows, trims.into_iter().collect())
    }

    /// Rows with their newest values, for the cache.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&RowKey, Option<&Bytes>)> {
        self.rows.iter().filter_map(|(row, versions)| {
            let cleared = self.cleared_at(table_of(row.row()), Lsn::MAX);
            let lives = cleared.is_none_or(|lsn| versions.newest.lsn >= lsn);
            lives.then_some((row.row(), versions.newest.value.as_ref()))
        })
    }

    /// Adds the tables of its rows, from one to the next without the rows between.
    fn collect_tables(&self, tables: &mut BTreeSet<TableId>) {
        let mut from = Some(TableId(0));
        while let Some(table) = from {
            let start = Bytes::copy_from_slice(&table.0.to_be_bytes());
            let mut rows = self.rows.range(SortedKey::new(start)..);
            let Some((row, _)) = rows.next() else {
                break;
            };
            let found = table_of(row.row());
            tables.insert(found);
            from = found.0.checked_add(1).map(TableId);
        }
    }

    /// Whether a whole table was emptied here.
    pub(crate) fn has_clears(&self) -> bool {
        !self.clears.is_empty()
    }

    fn set(&mut self, row: RowKey, lsn: Lsn, value: Option<Bytes>, durable: Lsn, pins: &Pins) {
        let version = RowVersion { lsn, value };
        match self.rows.entry(SortedKey::new(row)) {
            std::collections::btree_map::Entry::Vacant(slot) => {
                slot.insert(RowVersions {
                    newest: version,
                    older: Vec::new(),
                });
            }
            std::collections::btree_map::Entry::Occupied(mut slot) => {
                slot.get_mut().push(version, durable, pins);
            }
        }
    }

    /// Empties a table; what this very transaction wrote before goes too.
    fn clear(&mut self, table: TableId, lsn: Lsn) {
        let from = Bytes::copy_from_slice(&table.0.to_be_bytes());
        let mut emptied = Vec::new();
        for (row, versions) in self.rows.range_mut(SortedKey::new(from)..) {
            if table_of(row.row()) != table {
                break;
            }
            if versions.newest.lsn == lsn {
                match versions.older.pop() {
                    Some(version) => versions.newest = version,
                    None => emptied.push(row.clone()),
                }
            }
        }
        for row in emptied {
            self.rows.remove(&row);
        }
        self.clears.entry(table).or_default().push(lsn);
    }

    fn cleared_at(&self, table: TableId, at: Lsn) -> Option<Lsn> {
        if self.clears.is_empty() {
            return None;
        }
        let clears = self.clears.get(&table)?;
        clears.iter().rev().find(|lsn| **lsn <= at).copied()
    }

    /// `None`: this generation does not know the row.
    fn find(&self, row: &[u8], table: TableId, at: Lsn) -> Option<Option<Bytes>> {
        let cleared = self.cleared_at(table, at);
        let probe: &dyn PrefixOrdered = &Probe::new(row);
        let version = self.rows.get(probe).and_then(|versions| versions.at(at));
        match (version, cleared) {
            (Some(version), Some(lsn)) if version.lsn < lsn => Some(None),
            (Some(version), _) => Some(version.value.clone()),
            (None, Some(_)) => Some(None),
            (None, None) => None,
        }
    }

    fn collect(
        &self,
        table: TableId,
        (from, to): (Bound<&[u8]>, Bound<&[u8]>),
        at: Lsn,
        limit: usize,
        layer: &mut OverlayLayer,
    ) {
        let cleared = self.cleared_at(table, at);
        let mut taken = 0;
        let (from, to) = rows_of(table, from, to);
        let (from, to) = (probe(&from), probe(&to));
        let range = (from.as_ref().map(sorted), to.as_ref().map(sorted));
        for (row, versions) in self.rows.range::<dyn PrefixOrdered, _>(range) {
            let (_, key) = split_row_key(row.row());
            if taken == limit {
                let bound = layer.complete_before.get_or_insert_with(|| key.clone());
                *bound = key.min(bound.clone());
                break;
            }
            let Some(version) = versions.at(at) else {
                continue;
            };
            let lives = cleared.is_none_or(|lsn| version.lsn >= lsn);
            let value = version.value.clone().filter(|_| lives);
            layer.rows.entry(key).or_insert(value);
            taken += 1;
        }
    }

    fn roll_back(&mut self, to: Lsn) {
        self.rows.retain(|_, versions| {
            while versions.newest.lsn > to {
                match versions.older.pop() {
                    Some(version) => versions.newest = version,
                    None => return false,
                }
            }
            true
        });
        for clears in self.clears.values_mut() {
            clears.retain(|lsn| *lsn <= to);
        }
        self.clears.retain(|_, clears| !clears.is_empty());
        self.trims.retain(|(lsn, ..)| *lsn <= to);
        self.last_lsn = self.last_lsn.min(to);
    }
}

impl RowVersions {
    fn at(&self, at: Lsn) -> Option<&RowVersion> {
        if self.newest.lsn <= at {
            return Some(&self.newest);
        }
        self.older.iter().rev().find(|version| version.lsn <= at)
    }

    /// Adds a version and drops those that no read can need any more.
    fn push(&mut self, version: RowVersion, durable: Lsn, pins: &Pins) {
        if version.lsn == self.newest.lsn {
            self.newest = version;
            return;
        }
        let replaced = std::mem::replace(&mut self.newest, version);
        self.older.push(replaced);
        let mut next = self.newest.lsn;
        let mut index = self.older.len();
        while index > 0 {
            index -= 1;
            let lsn = self.older[index].lsn;
            // Seen by durable reads while `next` is not durable, or by a pin.
            let seen = next > durable || pins.range(lsn..next).next().is_some();
            if seen {
                next = lsn;
            } else {
                self.older.remove(index);
            }
        }
    }
}

/// A range of keys as a range of row keys.
fn rows_of(
    table: TableId,
    from: Bound<&[u8]>,
    to: Bound<&[u8]>,
) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let join = |key: &[u8]| [table.0.to_be_bytes().as_slice(), key].concat();
    let from = match from {
        Bound::Included(key) => Bound::Included(join(key)),
        Bound::Excluded(key) => Bound::Excluded(join(key)),
        Bound::Unbounded => Bound::Included(join(&[])),
    };
    let to = match to {
        Bound::Included(key) => Bound::Included(join(key)),
        Bound::Excluded(key) => Bound::Excluded(join(key)),
        Bound::Unbounded => match table.0.checked_add(1) {
            Some(next) => Bound::Excluded(next.to_be_bytes().to_vec()),
            None => Bound::Unbounded,
        },
    };
    (from, to)
}

fn probe(bound: &Bound<Vec<u8>>) -> Bound<Probe<'_>> {
    bound.as_ref().map(|row| Probe::new(row))
}

fn sorted<'a>(probe: &'a Probe<'a>) -> &'a (dyn PrefixOrdered + 'a) {
    probe
}

//! The bytes of one file and what a power cut may undo.
//!
//! - `live` is what readers see; every 512-byte block changed since the last sync also keeps what
//!   it held before each change, so that a cut can return to any of these moments.
//! - A block is changed as a whole; blocks are independent, except that cutting a file shorter is
//!   one step for all blocks it touches, as in a journaling file system.
//! - Moments are operation numbers of the disk: moment `m` is the state before operation `m`.

use std::collections::BTreeMap;

/// The unit that a disk writes as a whole.
pub(super) const BLOCK_BYTES: usize = 512;

/// With more versions of one block than this, every second one is dropped.
const MAX_VERSIONS: usize = 64;

#[derive(Default)]
pub(super) struct DiskFileContent {
    live: Vec<u8>,
    durable_size: usize,
    dirty: BTreeMap<usize, Vec<BlockVersion>>,
    changes: Vec<ContentChange>,
}

/// What a block held before one operation.
struct BlockVersion {
    operation: u64,
    shortened: bool,
    /// None where the block was all zeros or beyond the end.
    before: Option<Box<[u8; BLOCK_BYTES]>>,
}

/// One write or change of size since the last sync.
#[derive(Clone, Copy)]
pub(super) struct ContentChange {
    pub(super) operation: u64,
    pub(super) first_block: usize,
    pub(super) blocks: usize,
    size_after: usize,
    shortened: bool,
}

/// What survives of one file: decided per cut, queried per block.
pub(super) struct Survival<'a> {
    /// The moment to which a block returns, given its number and its last operation.
    pub(super) block: &'a mut dyn FnMut(usize, u64) -> u64,
    /// Operations that shorten the file survive if they are before this moment.
    pub(super) shortened_until: u64,
    pub(super) size: Size,
    /// Whether surviving blocks past the size extend the file or are lost.
    pub(super) extend: bool,
}

pub(super) enum Size {
    /// As it was at a moment.
    At(u64),
    /// Between the smallest (0.0) and the largest possible (1.0).
    Between(f64),
}

impl DiskFileContent {
    /// Bytes that are all durable.
    pub(super) fn durable(bytes: Vec<u8>) -> DiskFileContent {
        DiskFileContent {
            durable_size: bytes.len(),
            live: bytes,
            ..DiskFileContent::default()
        }
    }

    pub(super) fn size(&self) -> usize {
        self.live.len()
    }

    pub(super) fn read(&self, offset: usize, length: usize) -> &[u8] {
        let start = offset.min(self.live.len());
        let end = start.saturating_add(length).min(self.live.len());
        &self.live[start..end]
    }

    pub(super) fn changes(&self) -> &[ContentChange] {
        &self.changes
    }

    pub(super) fn write(&mut self, operation: u64, offset: usize, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        let end = offset + data.len();
        let (first, last) = (offset / BLOCK_BYTES, (end - 1) / BLOCK_BYTES);
        for block in first..=last {
            self.remember(operation, block, false);
        }
        if end > self.live.len() {
            self.live.resize(end, 0);
        }
        self.live[offset..end].copy_from_slice(data);
        self.note(operation, first, last + 1 - first, false);
    }

    pub(super) fn zero(&mut self, operation: u64, offset: usize, length: usize) {
        let end = offset.saturating_add(length).min(self.live.len());
        if offset < end {
            self.write(operation, offset, &vec![0; end - offset]);
        }
    }

    pub(super) fn resize(&mut self, operation: u64, size: usize) {
        let old = self.live.len();
        if size == old {
            return;
        }
        let (first, end) = (size.min(old) / BLOCK_BYTES, size.max(old));
        if size < old {
            for block in first..end.div_ceil(BLOCK_BYTES) {
                self.remember(operation, block, true);
            }
        }
        self.live.resize(size, 0);
        self.note(operation, first, 0, size < old);
    }

    pub(super) fn sync(&mut self) {
        self.durable_size = self.live.len();
        self.dirty.clear();
        self.changes.clear();
    }

    /// Flips the lowest bit of a byte now and at every earlier moment; false beyond the end.
    pub(super) fn flip(&mut self, offset: usize) -> bool {
        let Some(byte) = self.live.get_mut(offset) else {
            return false;
        };
        *byte ^= 1;
        let versions = self.dirty.get_mut(&(offset / BLOCK_BYTES));
        for version in versions.into_iter().flatten() {
            if let Some(before) = &mut version.before {
                before[offset % BLOCK_BYTES] ^= 1;
            }
        }
        true
    }

    /// The bytes after a power cut.
    pub(super) fn survive(mut self, survival: Survival<'_>) -> Vec<u8> {
        let Survival {
            block: choose,
            shortened_until,
            size,
            extend,
        } = survival;
        let (least, most) = self.size_range(shortened_until);
        let mut size = match size {
            Size::At(moment) => self.size_at(moment),
            Size::Between(part) => least + ((most - least) as f64 * part).round() as usize,
        };
        let dirty = std::mem::take(&mut self.dirty);
        let mut undone = Vec::new();
        for (block, versions) in &dirty {
            let last = versions.last().map_or(0, |version| version.operation);
            let moment = within_shortenings(versions, choose(*block, last), shortened_until);
            let position = versions.partition_point(|version| version.operation < moment);
            if extend && position > 0 {
                size = size.max(((block + 1) * BLOCK_BYTES).min(most));
            }
            undone.extend(versions.get(position).map(|version| (*block, version)));
        }
        self.live.resize(self.live.len().max(size), 0);
        for (block, version) in undone {
            self.restore(block, version);
        }
        self.live.truncate(size);
        self.live
    }

    fn restore(&mut self, block: usize, version: &BlockVersion) {
        let start = block * BLOCK_BYTES;
        if start >= self.live.len() {
            return;
        }
        let end = self.live.len().min(start + BLOCK_BYTES);
        match &version.before {
            Some(before) => self.live[start..end].copy_from_slice(&before[..end - start]),
            None => self.live[start..end].fill(0),
        }
    }

    /// The smallest and largest size at the moments between two shortenings.
    fn size_range(&self, shortened_until: u64) -> (usize, usize) {
        let (mut least, mut most) = (self.durable_size, self.durable_size);
        for change in &self.changes {
            if change.shortened && change.operation >= shortened_until {
                break;
            }
            if change.shortened {
                (least, most) = (change.size_after, change.size_after);
            }
            most = most.max(change.size_after);
        }
        (least, most)
    }

    fn size_at(&self, moment: u64) -> usize {
        let position = self
            .changes
            .partition_point(|change| change.operation < moment);
        match position.checked_sub(1) {
            Some(last) => self.changes[last].size_after,
            None => self.durable_size,
        }
    }

    fn remember(&mut self, operation: u64, block: usize, shortened: bool) {
        let start = block * BLOCK_BYTES;
        let before = (start < self.live.len()).then(|| {
            let end = self.live.len().min(start + BLOCK_BYTES);
            let mut bytes = Box::new([0; BLOCK_BYTES]);
            bytes[..end - start].copy_from_slice(&self.live[start..end]);
            bytes
        });
        let versions = self.dirty.entry(block).or_default();
        versions.push(BlockVersion {
            operation,
            shortened,
            before,
        });
        if versions.len() > MAX_VERSIONS {
            thin(versions);
        }
    }

    fn note(&mut self, operation: u64, first_block: usize, blocks: usize, shortened: bool) {
        self.changes.push(ContentChange {
            operation,
            first_block,
            blocks,
            size_after: self.live.len(),
            shortened,
        });
    }
}

impl ContentChange {
    pub(super) fn touches(&self, block: usize) -> bool {
        (self.first_block..self.first_block + self.blocks).contains(&block)
    }

    pub(super) fn shortens(&self) -> bool {
        self.shortened
    }
}

/// Moves a moment to where all shortenings before `until` are done and no later one is.
fn within_shortenings(versions: &[BlockVersion], moment: u64, until: u64) -> u64 {
    let shortenings = versions.iter().filter(|version| version.shortened);
    let (mut earliest, mut latest) = (0, u64::MAX);
    for version in shortenings {
        if version.operation < until {
            earliest = version.operation + 1;
        } else {
            latest = latest.min(version.operation);
        }
    }
    moment.clamp(earliest, latest.max(earliest))
}

/// Drops every second version, but never the first or one before a shortening.
fn thin(versions: &mut Vec<BlockVersion>) {
    let mut index = 0;
    versions.retain(|version| {
        index += 1;
        version.shortened || index % 2 == 1
    });
}

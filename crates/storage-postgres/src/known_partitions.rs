//! This node's view of the partitions that it owns.
//!
//! Only what the database has acknowledged enters here, so anything that the
//! database later lacks is a loss. Nothing here decides what is committed.

use std::collections::{HashMap, VecDeque};

use steadfast_core::id::{EntryNumber, Epoch, Offset, Partition, Sequence, StreamId};
use steadfast_storage::engine::Entry;

use crate::digest::FlushedStreams;

/// All partitions that a node owns.
pub(crate) type KnownPartitions = HashMap<Partition, KnownPartition>;

/// The acknowledged state of one partition.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownPartition {
    pub(crate) epoch: Epoch,
    /// The last acknowledged entry and its hash.
    pub(crate) last: EntryNumber,
    pub(crate) hash: u64,
    pub(crate) flushed: EntryNumber,
    /// On which timeline all this was verified.
    pub(crate) timeline: u32,
    /// An append is unresolved: only acquiring again helps.
    pub(crate) in_doubt: bool,
    /// Entries that are not flushed yet.
    pub(crate) links: VecDeque<EntryLink>,
    /// Where trimmed streams begin.
    pub(crate) trimmed: HashMap<StreamId, Sequence>,
}

/// What a flush must know of an entry.
#[derive(Clone, Debug)]
pub(crate) struct EntryLink {
    pub(crate) number: EntryNumber,
    pub(crate) hash: u64,
    /// The ends of the entry's streams after its batches.
    pub(crate) ends: Vec<(StreamId, Sequence, Offset)>,
}

impl KnownPartition {
    /// Whether an entry is the next one.
    pub(crate) fn takes(&self, entry: &Entry) -> bool {
        self.epoch == entry.epoch && self.last.next() == entry.number
    }

    /// Notes an acknowledged entry.
    pub(crate) fn committed(&mut self, entry: &Entry, hash: u64) {
        self.last = entry.number;
        self.hash = hash;
        let ends = entry.batches.iter();
        self.links.push_back(EntryLink {
            number: entry.number,
            hash,
            ends: ends.map(|b| (b.stream, b.next(), b.end())).collect(),
        });
    }

    /// Notes a flush.
    pub(crate) fn flushed(&mut self, up_to: EntryNumber, trims: &[(StreamId, Sequence)]) {
        self.flushed = self.flushed.max(up_to);
        while self.links.front().is_some_and(|link| link.number <= up_to) {
            self.links.pop_front();
        }
        for (stream, first) in trims {
            let known = self.trimmed.entry(*stream).or_default();
            *known = (*known).max(*first);
        }
    }
}

/// Moves the ends of streams on to where entries leave them.
pub(crate) fn advance<'a>(hubs: &mut FlushedStreams, links: impl Iterator<Item = &'a EntryLink>) {
    for (stream, next, end) in links.flat_map(|link| &link.ends) {
        let ends = hubs.entry(*stream).or_default();
        if *next > ends.next {
            (ends.next, ends.end) = (*next, *end);
        }
    }
}

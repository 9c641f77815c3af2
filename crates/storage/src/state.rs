//! What the owner of a partition keeps in memory.
//!
//! Everything is under one lock: staged writes, the durable mark, and waiters.
//! Replaying an entry and staging a transaction apply the same changes to the overlay,
//! so a loaded partition equals one that stayed in memory.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::clock::Timestamp;
use steadfast_core::id::{EntryNumber, Epoch, Lsn, Offset, Sequence, StreamId, TableId};
use tokio::sync::oneshot;

use crate::body::{EntryBody, RedoOperation, Transaction, operations};
use crate::engine::EventBatch;
use crate::error::{Error, Result};
use crate::export::tap::Tap;
use crate::overlay::{Overlay, Pins};
use crate::streams::EventStreams;

pub(crate) struct State {
    pub(crate) epoch: Epoch,
    /// The last entry that was closed.
    pub(crate) last: EntryNumber,
    pub(crate) next_lsn: Lsn,
    pub(crate) durable_lsn: Lsn,
    pub(crate) time: Timestamp,
    pub(crate) overlay: Overlay,
    pub(crate) streams: EventStreams,
    /// Tables that may have rows in the engine's tables; `None` if an older version
    /// has flushed the partition and kept no list.
    pub(crate) tables: Option<BTreeSet<TableId>>,
    /// The tap of a running backup, which gets every entry.
    pub(crate) tap: Option<Arc<Tap>>,
    pub(crate) pins: Pins,
    /// Cached rows of older versions are never found again.
    pub(crate) cache_version: u64,
    pub(crate) pending: VecDeque<PendingTransaction>,
    pub(crate) pending_bytes: usize,
    /// The last transaction of the entry that is on its way.
    pub(crate) in_flight: Option<Lsn>,
    /// The last transaction of an entry that was in flight when the ledger ended: its
    /// outcome is unknown.
    pub(crate) in_doubt: Option<Lsn>,
    /// The committer acquires anew to resolve an unknown outcome: the engine may be
    /// in a later epoch than this state.
    pub(crate) resolving: bool,
    /// How often staged writes were rolled back, and which.
    pub(crate) rollbacks: u64,
    pub(crate) taken_back: VecDeque<(Lsn, Lsn)>,
    pub(crate) waiters: VecDeque<(Lsn, oneshot::Sender<Result<()>>)>,
    /// In the committer's queue.
    pub(crate) queued: bool,
    /// The flusher wants the active generation sealed at the next close.
    pub(crate) seal_requested: bool,
    /// Log bytes that were ever closed here.
    pub(crate) appended: u64,
    /// Snapshots that are held.
    pub(crate) held: Vec<Weak<Pin>>,
    pub(crate) failed: Option<Error>,
}

/// A snapshot's hold on the overlay.
pub(crate) struct Pin {
    pub(crate) lsn: Lsn,
    /// When it was taken, in monotonic time.
    pub(crate) since: Duration,
    /// [`State::appended`] at that time.
    pub(crate) appended: u64,
    /// It no longer holds anything: a flush may have passed it.
    pub(crate) expired: AtomicBool,
}

/// A staged transaction that waits for its entry.
pub(crate) struct PendingTransaction {
    pub(crate) lsn: Lsn,
    pub(crate) time: Timestamp,
    pub(crate) transaction: Transaction,
    pub(crate) batches: Vec<EventBatch>,
    pub(crate) trims: Vec<Trim>,
}

/// A stream's new beginning.
pub(crate) type Trim = (StreamId, Sequence, Offset);

impl PendingTransaction {
    pub(crate) fn weight(&self) -> usize {
        let batches = self.batches.iter().map(EventBatch::weight).sum::<usize>();
        self.transaction.operations.len() + batches + 16
    }
}

impl State {
    /// The state of a partition that has just been acquired; entries follow by
    /// [`State::replay`].
    pub(crate) fn new(
        epoch: Epoch,
        last: EntryNumber,
        next_lsn: Lsn,
        time: Timestamp,
        streams: EventStreams,
        cache_version: u64,
    ) -> Self {
        Self {
            epoch,
            last,
            next_lsn,
            durable_lsn: Lsn(next_lsn.0 - 1),
            time,
            overlay: Overlay::default(),
            streams,
            tables: Some(BTreeSet::new()),
            tap: None,
            pins: Pins::new(),
            cache_version,
            pending: VecDeque::new(),
            pending_bytes: 0,
            in_flight: None,
            in_doubt: None,
            resolving: false,
            rollbacks: 0,
            taken_back: VecDeque::new(),
            waiters: VecDeque::new(),
            queued: false,
            seal_requested: false,
            appended: 0,
            held: Vec::new(),
            failed: None,
        }
    }

    /// Applies an entry that was found in the log.
    pub(crate) fn replay(
        &mut self,
        number: EntryNumber,
        body: &EntryBody,
        batches: Vec<EventBatch>,
        weight: u64,
    ) {
        let mut lsn = body.first_lsn;
        self.durable_lsn = self.durable_lsn.max(body.last_lsn());
        for batch in batches {
            self.streams.replay(batch);
        }
        for transaction in &body.transactions {
            for (stream, first, offset) in self.redo(lsn, transaction.operations.clone()) {
                self.streams.committed_trim(stream, first, offset);
            }
            lsn = lsn.next();
        }
        self.last = number;
        self.next_lsn = self.durable_lsn.next();
        self.time = self.time.max(body.time);
        self.account(body.last_lsn(), weight, 0);
    }

    /// Brings a transaction's rows into the overlay; answers its trims.
    pub(crate) fn redo(&mut self, lsn: Lsn, bytes: Bytes) -> Vec<Trim> {
        let (durable, pins) = (self.durable_lsn, &self.pins);
        let mut trims = Vec::new();
        for operation in operations(bytes) {
            let operation = operation.expect("encoded by us or checked when decoded");
            if let RedoOperation::Trim(stream, first, offset) = operation {
                if !self.streams.stage_trim(stream, first, offset) {
                    continue;
                }
                trims.push((stream, first, offset));
            }
            self.overlay.apply(lsn, operation, durable, pins);
        }
        trims
    }

    /// Everything after the last durable transaction was rolled back.
    pub(crate) fn note_rollback(&mut self) {
        // Older entries are no longer looked up.
        const KEPT: usize = 1024;
        let (first, last) = (self.durable_lsn.next(), Lsn(self.next_lsn.0 - 1));
        self.rollbacks += 1;
        match self.taken_back.back_mut() {
            Some(range) if range.0 == first => range.1 = last,
            _ => self.taken_back.push_back((first, last)),
        }
        if self.taken_back.len() > KEPT {
            self.taken_back.pop_front();
        }
    }

    pub(crate) fn is_rolled_back(&self, lsn: Lsn) -> bool {
        let later = self.taken_back.partition_point(|(first, _)| *first <= lsn);
        let range = later
            .checked_sub(1)
            .and_then(|index| self.taken_back.get(index));
        range.is_some_and(|(_, last)| lsn <= *last)
    }

    pub(crate) fn account(&mut self, lsn: Lsn, bytes: u64, group: u64) {
        self.overlay.add_bytes(lsn, bytes, group, self.last);
        self.appended += bytes;
    }
}

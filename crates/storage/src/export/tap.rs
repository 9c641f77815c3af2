//! A tap on ledgers: every committed entry, in order.
//!
//! Writers never wait for it. Committed entries are queued until the backup takes
//! them; if the queue exceeds its bound, the tap closes itself and the backup fails,
//! without any effect on writers.

use bytes::Bytes;
use parking_lot::Mutex;
use steadfast_core::id::Partition;

use crate::engine::{Entry, EventBatch};
use crate::error::{Error, ErrorKind, Result};

/// Entries that were committed since the last [`Tap::take`].
pub(crate) struct Tap {
    limit: usize,
    queue: Mutex<TapQueue>,
}

/// Entries that the backup has not taken yet.
#[derive(Default)]
struct TapQueue {
    entries: Vec<TappedEntry>,
    bytes: usize,
    is_overrun: bool,
}

/// A committed entry as far as a backup needs it.
pub struct TappedEntry {
    pub partition: Partition,
    pub body: Bytes,
    pub batches: Vec<EventBatch>,
}

impl Tap {
    /// A tap that holds `limit` bytes at most.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            queue: Mutex::new(TapQueue::default()),
        }
    }

    /// Adds a committed entry; its bytes are shared, not copied.
    pub(crate) fn push(&self, entry: &Entry) {
        let mut queue = self.queue.lock();
        if queue.is_overrun {
            return;
        }
        queue.bytes += entry.weight();
        if queue.bytes > self.limit {
            queue.is_overrun = true;
            queue.entries = Vec::new();
            return;
        }
        queue.entries.push(TappedEntry {
            partition: entry.partition,
            body: entry.body.clone(),
            batches: entry.batches.clone(),
        });
    }

    /// Takes out what has come in.
    pub(crate) fn take(&self) -> Result<Vec<TappedEntry>> {
        let mut queue = self.queue.lock();
        if queue.is_overrun {
            return Err(Error::new(ErrorKind::BackupOverrun {
                waiting: queue.bytes,
                limit: self.limit,
            }));
        }
        queue.bytes = 0;
        Ok(std::mem::take(&mut queue.entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steadfast_core::id::{EntryNumber, Epoch};

    fn entry(number: u64, bytes: usize) -> Entry {
        Entry {
            partition: Partition(1),
            epoch: Epoch(1),
            number: EntryNumber(number),
            body: vec![number as u8; bytes].into(),
            batches: Vec::new(),
        }
    }

    #[test]
    fn a_tap_that_is_emptied_never_runs_over() {
        let tap = Tap::new(100);
        for number in 0..10 {
            tap.push(&entry(number, 60));
            let taken = tap.take().unwrap();
            assert_eq!(taken.len(), 1);
            assert_eq!(taken[0].body[0], number as u8);
        }
    }

    #[test]
    fn a_tap_that_nobody_empties_closes_itself() {
        let tap = Tap::new(100);
        tap.push(&entry(1, 60));
        tap.push(&entry(2, 60));
        tap.push(&entry(3, 1));
        let error = tap.take().err().unwrap();
        assert_eq!(error.code().0, "STF-2058");
        assert!(tap.take().is_err(), "what was lost does not come back");
    }
}

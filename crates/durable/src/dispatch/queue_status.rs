//! The contents of a work queue, for operators.
//!
//! A worker of another node is registered here too, as a guest. Its own node lists it and
//! adds what the other nodes have assigned to it.

use steadfast_core::limits;

use super::counts::TaskHubCounts;
use super::entry::EntryState;
use super::peer_messages::{GuestRecord, WorkerList};
use super::work_queue::{State, WorkQueue};
use super::worker_slot::WorkerSlot;

impl WorkQueue {
    /// The workers and items of this queue, without guests.
    pub(crate) fn counts(&self) -> TaskHubCounts {
        counts(&self.state.lock())
    }

    /// Workers that are connected to this node: `limit` at most whose numbers are greater
    /// than `after`, and fewer if their filters are long.
    pub(crate) fn list(&self, after: u64, limit: usize) -> WorkerList {
        let state = self.state.lock();
        let guest = |slot: &WorkerSlot| {
            let in_progress = slot.in_progress();
            let seat = slot.guest().filter(|_| in_progress.total() > 0)?;
            Some(GuestRecord { seat, in_progress })
        };
        let mut list = WorkerList {
            counts: counts(&state),
            guests: state.workers.values().filter_map(guest).collect(),
            ..WorkerList::default()
        };
        let mut bytes = 0;
        let later = state.workers.range(after.saturating_add(1)..);
        for (number, slot) in later.filter(|(_, slot)| slot.guest().is_none()) {
            if list.workers.len() >= limit || bytes >= limits::TAIL_BYTES {
                list.has_more = true;
                break;
            }
            let record = slot.record(*number);
            bytes += record.options.text_bytes();
            list.workers.push(record);
        }
        list
    }
}

fn counts(state: &State) -> TaskHubCounts {
    let own = state.workers.values().filter(|slot| slot.guest().is_none());
    let mut counts = TaskHubCounts {
        workers: own.count() as u64,
        ..TaskHubCounts::default()
    };
    for entry in state.entries.values() {
        let to = match entry.state {
            EntryState::Ready | EntryState::Delayed => &mut counts.queued,
            EntryState::Assigned(_) | EntryState::Committing => &mut counts.in_progress,
        };
        *to.of(entry.group.sort) += 1;
    }
    counts
}

//! Work items that workers abandon.
//!
//! A worker that cannot run an item, such as one of an older version, abandons it. Other
//! workers may take it at once; the one that abandoned it is skipped for a while. An item
//! that every worker has abandoned is offered to one of them after a growing pause, and
//! to a newly connected worker at once. If that one disconnects, the others are offered
//! the item again.
//!
//! A worker that has no code for an item returns a failure. As long as another worker has
//! not been tried, the item is requeued for it; the last worker's failure is the result.

use std::collections::BTreeMap;
use std::time::Duration;
use steadfast_core::task::name_task;

use super::entry::{Entry, EntryState, Key, WorkKind};
use super::token::DeliveryToken;
use super::work_queue::{State, WorkQueue};
use super::worker_slot::WorkerSlot;
use crate::failure::FailureDetails;

/// An offer after a pause.
struct DelayedOffer {
    key: Key,
    number: u64,
    /// How often every worker had abandoned the entry when the pause began.
    refusals: u32,
    /// The worker to offer it to; `None`: the next one in turn.
    seat: Option<u64>,
}

impl WorkQueue {
    /// A worker abandons an item. Other workers may take it at once, and the one that does
    /// is preferred for the next turns; this one is skipped for a while, longer each time.
    pub(crate) fn abandon(&self, token: &DeliveryToken) -> bool {
        let mut state = self.state.lock();
        let found = state.entries.iter().find(|(_, entry)| {
            matches!(entry.state, EntryState::Assigned(_)) && entry.token() == *token
        });
        let Some(key) = found.map(|(key, _)| key.clone()) else {
            return false;
        };
        self.requeue(&mut state, &key)
    }

    /// An item has failed. If the worker had no code for it, and another worker that may
    /// have code was not tried yet, the item goes to that worker. `false`: the failure is
    /// the result. A failure of an earlier delivery of an activity is ignored: a newer
    /// delivery is pending.
    pub(crate) fn offer_to_others(
        &self,
        key: &Key,
        token: Option<&DeliveryToken>,
        failure: &FailureDetails,
    ) -> bool {
        let mut state = self.state.lock();
        let State {
            entries,
            workers: seats,
            ..
        } = &mut *state;
        let Some(entry) = entries.get_mut(key) else {
            return false;
        };
        let (sort, name) = (entry.group.sort, &entry.group.name);
        let is_missing = match sort {
            WorkKind::Turn => failure.is_unknown_orchestration(name),
            WorkKind::Activity => failure.is_unknown_activity(name),
            WorkKind::Batch => false,
        };
        let is_meant = token.is_none_or(|token| entry.token() == *token);
        let seat = match entry.state {
            _ if !is_missing => return false,
            EntryState::Assigned(seat) if is_meant => seat,
            _ => return sort == WorkKind::Activity,
        };
        entry.lacks_code(seat, |seat| seats.contains_key(seat));
        let mut others = seats.iter().filter(|(id, _)| !entry.lacking.contains(id));
        others.any(|(_, other)| other.knows(&entry.group)) && self.requeue(&mut state, key)
    }

    fn requeue(&self, state: &mut State, key: &Key) -> bool {
        let State {
            entries,
            workers: seats,
            affinity: habits,
            ..
        } = state;
        let Some(entry) = entries.get_mut(key) else {
            return false;
        };
        let EntryState::Assigned(seat) = entry.state else {
            return false;
        };
        if habits.get(key) == Some(&seat) {
            habits.remove(key);
        }
        let mut pause = entry.decline(seat, |seat| seats.contains_key(seat));
        let mut to = Some(seat);
        if is_refused(entry, seats) {
            (pause, to) = (entry.refuse(), None);
        } else if entry.refusals > 0 {
            entry.reconsider();
            entry.group.declined_by.insert(seat);
        }
        let offer = DelayedOffer {
            key: key.clone(),
            number: entry.number,
            refusals: entry.refusals,
            seat: to,
        };
        self.ready(state, key);
        self.offer_again(offer, pause);
        true
    }

    /// Offers an entry again, after a pause, to a worker that has abandoned it.
    fn offer_again(&self, offer: DelayedOffer, pause: Duration) {
        let me = self.me.clone();
        tokio::spawn(name_task(async move {
            tokio::time::sleep(pause).await;
            if let Some(desk) = me.upgrade() {
                desk.offer(&mut desk.state.lock(), &offer);
            }
        }));
    }

    fn offer(&self, state: &mut State, offer: &DelayedOffer) {
        let next = state
            .entries
            .get(&offer.key)
            .and_then(|entry| state.next_to_ask(&entry.group));
        let State {
            entries,
            workers: seats,
            ..
        } = state;
        let is_meant =
            |entry: &&mut Entry| (entry.number, entry.refusals) == (offer.number, offer.refusals);
        let Some(entry) = entries.get_mut(&offer.key).filter(is_meant) else {
            return;
        };
        match offer.seat.or(next) {
            Some(seat) if offer.seat.is_some() || is_refused(entry, seats) => {
                entry.group.declined_by.remove(&seat);
            }
            // A worker has connected that was not tried yet, and has no room.
            _ => entry.reconsider(),
        }
        if entry.state == EntryState::Ready {
            // Its current queue is skipped for that worker.
            self.ready(state, &offer.key);
        }
    }

    /// A worker has disconnected. Items that every worker had abandoned, and that this one
    /// was offered again, go to the other workers without a pause.
    pub(super) fn ask_others(&self, state: &mut State, id: u64, gone: &WorkerSlot) {
        let was_asked = |entry: &Entry| {
            let group = &entry.group;
            entry.refusals > 0 && !group.declined_by.contains(&id) && gone.knows(group)
        };
        let mut waiting = Vec::new();
        for (key, entry) in &mut state.entries {
            if was_asked(entry) {
                entry.reconsider();
                if entry.state == EntryState::Ready {
                    waiting.push(key.clone());
                }
            }
        }
        for key in waiting {
            let entry = state.entries.get(&key);
            // It may have been assigned from its former queue by now.
            if entry.is_some_and(|entry| entry.state == EntryState::Ready) {
                self.ready(state, &key);
            }
        }
    }
}

/// Whether every worker that has code for an entry has abandoned it.
fn is_refused(entry: &Entry, seats: &BTreeMap<u64, WorkerSlot>) -> bool {
    let group = &entry.group;
    let mut known = seats.iter().filter(|(_, seat)| seat.knows(group));
    known.all(|(id, _)| group.declined_by.contains(id))
}

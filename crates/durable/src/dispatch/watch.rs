//! Ends the leases of workers that are too slow.

use std::collections::HashMap;
use std::sync::Weak;

use steadfast_core::limits;
use tokio::time::Instant;

use super::delivery_lease::DeliveryLease;
use super::entry::{Entry, EntryState, Key};
use super::work_queue::{State, WorkQueue};

impl State {
    /// Releases capacity after a burst: no item is assigned any more.
    fn give_back(&mut self) {
        self.leases.queue.shrink_to(SPARE);
        self.entries.shrink_to(SPARE);
    }
}

/// The capacity that is kept.
const SPARE: usize = 1024;

impl WorkQueue {
    /// Ends leases at their deadlines until there are none.
    pub(super) async fn watch(me: Weak<Self>) {
        loop {
            let deadline = {
                let Some(desk) = me.upgrade() else {
                    return;
                };
                let mut state = desk.state.lock();
                let now = Instant::now();
                while let Some(lease) = state.leases.queue.front()
                    && (lease.deadline <= now || !is_out(&state.entries, lease))
                {
                    let Some(lease) = state.leases.queue.pop_front() else {
                        break;
                    };
                    if is_out(&state.entries, &lease) {
                        desk.delivery_lost(&mut state, &lease.key);
                    }
                }
                match state.leases.queue.front() {
                    Some(lease) => lease.deadline,
                    None => {
                        state.leases.is_watched = false;
                        state.give_back();
                        return;
                    }
                }
            };
            tokio::time::sleep_until(deadline).await;
        }
    }

    /// Removes unused affinities until there are none.
    pub(super) async fn age_affinity(me: Weak<Self>) {
        loop {
            tokio::time::sleep(limits::HABIT_AGE).await;
            let Some(desk) = me.upgrade() else {
                return;
            };
            if !desk.state.lock().affinity.age() {
                return;
            }
        }
    }
}

fn is_out(entries: &HashMap<Key, Entry>, lease: &DeliveryLease) -> bool {
    let entry = entries.get(&lease.key);
    entry.is_some_and(|entry| {
        let is_same = entry.number == lease.number && entry.attempt == lease.attempt;
        is_same && matches!(entry.state, EntryState::Assigned(_))
    })
}

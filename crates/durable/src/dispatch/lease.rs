//! Workers that are silent for too long.

use std::collections::VecDeque;
use std::sync::Weak;

use tokio::time::Instant;

use super::desk::Desk;
use super::entry::{Key, Place};

/// Deadlines of deliveries. All leases are equally long, so they end in the order
/// in which they began.
#[derive(Default)]
pub(super) struct Leases {
    queue: VecDeque<Lease>,
    is_watched: bool,
}

struct Lease {
    deadline: Instant,
    key: Key,
    number: u64,
    attempt: u32,
}

impl Leases {
    /// Answers whether nobody watches yet.
    pub(super) fn add(&mut self, deadline: Instant, key: Key, number: u64, attempt: u32) -> bool {
        self.queue.push_back(Lease {
            deadline,
            key,
            number,
            attempt,
        });
        !std::mem::replace(&mut self.is_watched, true)
    }
}

/// Ends leases until there are none.
pub(super) async fn watch(desk: Weak<Desk>) {
    loop {
        let deadline = {
            let Some(desk) = desk.upgrade() else {
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
                    desk.lose(&mut state, &lease.key);
                }
            }
            match state.leases.queue.front() {
                Some(lease) => lease.deadline,
                None => {
                    state.leases.is_watched = false;
                    return;
                }
            }
        };
        tokio::time::sleep_until(deadline).await;
    }
}

fn is_out(entries: &std::collections::HashMap<Key, super::entry::Entry>, lease: &Lease) -> bool {
    let entry = entries.get(&lease.key);
    entry.is_some_and(|entry| {
        let is_same = entry.number == lease.number && entry.attempt == lease.attempt;
        is_same && matches!(entry.place, Place::Out(_))
    })
}

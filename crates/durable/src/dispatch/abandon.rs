//! Items that workers give back.
//!
//! A worker that cannot run an item, such as one of an older version, abandons it. Every
//! other worker may take it at once; the one that gave it back is passed over for a while.

use std::time::Duration;

use super::desk::{Desk, State};
use super::entry::{Key, Place};
use super::token::Token;

impl Desk {
    /// The worker gives an item back. Others may take it at once, and the one that does is
    /// preferred for the next turns; this one is passed over for a while, longer each time.
    pub(crate) fn abandon(&self, token: &Token) -> bool {
        let mut state = self.state.lock();
        let found = state
            .entries
            .iter()
            .find(|(_, entry)| matches!(entry.place, Place::Out(_)) && entry.token() == *token);
        let Some(key) = found.map(|(key, _)| key.clone()) else {
            return false;
        };
        let State {
            entries,
            seats,
            habits,
            ..
        } = &mut *state;
        let Some(entry) = entries.get_mut(&key) else {
            return false;
        };
        let Place::Out(seat) = entry.place else {
            return false;
        };
        if habits.get(&key) == Some(&seat) {
            habits.remove(&key);
        }
        let pause = entry.decline(seat, |seat| seats.contains_key(seat));
        let number = entry.number;
        self.ready(&mut state, &key);
        self.offer_again(key, number, seat, pause);
        true
    }

    /// Offers an entry again, after a pause, to a worker that has given it back.
    fn offer_again(&self, key: Key, number: u64, seat: u64, pause: Duration) {
        let me = self.me.clone();
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            let Some(desk) = me.upgrade() else {
                return;
            };
            let mut state = desk.state.lock();
            let entry = state.entries.get_mut(&key);
            if let Some(entry) = entry.filter(|entry| entry.number == number) {
                entry.group.declined_by.remove(&seat);
                if entry.place == Place::Ready {
                    // The queue that it is in is not looked at for that worker.
                    desk.ready(&mut state, &key);
                }
            }
        });
    }
}

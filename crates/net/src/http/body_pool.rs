//! Memory for bodies, shared fairly by all clients.
//!
//! A client may hold as much as it leaves free: half of the pool for one client, a third
//! each for two. The only body of a client may take more, if a quarter of the pool stays
//! free. So there is always room for a client that holds nothing yet.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use steadfast_core::limits;
use tokio::sync::{Mutex as Gate, Notify};

/// The unit of fairness: one key from one address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct BodySender {
    pub(super) key: Option<String>,
    pub(super) address: Option<IpAddr>,
}

/// The bytes that the bodies of all clients share.
#[derive(Debug)]
pub(super) struct BodyPool {
    state: Mutex<State>,
    /// Bytes were released.
    freed: Notify,
}

#[derive(Debug)]
struct State {
    free: usize,
    /// Bytes that the only body of a client must leave free.
    reserve: usize,
    senders: HashMap<BodySender, SenderUsage>,
}

#[derive(Debug, Default)]
struct SenderUsage {
    bytes: usize,
    /// One body of a client waits for bytes; its other bodies wait at this gate.
    gate: Arc<Gate<()>>,
}

/// The bytes that a body holds; released on drop.
#[derive(Debug)]
pub(super) struct BodyReservation {
    room: Arc<BodyPool>,
    sender: BodySender,
    bytes: usize,
}

impl BodyPool {
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            state: Mutex::new(State {
                free: bytes,
                reserve: bytes / 4,
                senders: HashMap::new(),
            }),
            freed: Notify::new(),
        }
    }

    /// Waits for more bytes for a body that has some already: `due` bytes, or `least` if
    /// there are fewer.
    pub(super) async fn take(
        self: &Arc<Self>,
        sender: &BodySender,
        has: usize,
        least: usize,
        due: usize,
    ) -> BodyReservation {
        let gate = self.state.lock().gate(sender);
        let _turn = gate.lock().await;
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            if let Some(bytes) = self.state.lock().take(sender, has, least, due) {
                return BodyReservation {
                    room: Arc::clone(self),
                    sender: sender.clone(),
                    bytes,
                };
            }
            freed.await;
        }
    }

    /// Takes bytes for another body, if there are any.
    pub(super) fn try_take(
        self: &Arc<Self>,
        sender: &BodySender,
        bytes: usize,
    ) -> Option<BodyReservation> {
        let mut state = self.state.lock();
        state.gate(sender);
        let bytes = state.take(sender, 0, bytes, bytes)?;
        Some(BodyReservation {
            room: Arc::clone(self),
            sender: sender.clone(),
            bytes,
        })
    }
}

impl State {
    fn gate(&mut self, sender: &BodySender) -> Arc<Gate<()>> {
        if self.senders.len() >= limits::BODY_SENDERS {
            let is_used = |own: &SenderUsage| own.bytes > 0 || Arc::strong_count(&own.gate) > 1;
            self.senders.retain(|_, own| is_used(own));
        }
        let holding = self.senders.entry(sender.clone()).or_default();
        Arc::clone(&holding.gate)
    }

    fn take(&mut self, sender: &BodySender, has: usize, least: usize, due: usize) -> Option<usize> {
        let (free, reserve) = (self.free, self.reserve);
        let holding = self.senders.get_mut(sender)?;
        let held = holding.bytes;
        let fits = |bytes: &usize| {
            let left = free.checked_sub(*bytes);
            left.is_some_and(|left| held + bytes <= left || (held == has && left >= reserve))
        };
        let bytes = [due, least].into_iter().find(fits)?;
        holding.bytes += bytes;
        self.free -= bytes;
        Some(bytes)
    }

    fn give(&mut self, sender: &BodySender, bytes: usize) {
        self.free += bytes;
        if let Some(holding) = self.senders.get_mut(sender) {
            holding.bytes -= bytes;
            if holding.bytes == 0 && Arc::strong_count(&holding.gate) == 1 {
                self.senders.remove(sender);
            }
        }
    }
}

impl BodyReservation {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a later reservation of the same body.
    pub(super) fn merge(&mut self, mut more: Self) {
        self.bytes += std::mem::take(&mut more.bytes);
    }
}

impl Drop for BodyReservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.room.state.lock().give(&self.sender, self.bytes);
            self.room.freed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn sender(key: &str) -> BodySender {
        BodySender {
            key: Some(key.to_owned()),
            address: None,
        }
    }

    /// Takes bodies of ten bytes until the next one has to wait.
    fn fill(room: &Arc<BodyPool>, sender: &BodySender) -> Vec<BodyReservation> {
        let next = || room.take(sender, 0, 10, 10).now_or_never();
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn a_client_holds_as_much_as_it_leaves_free() {
        let room = Arc::new(BodyPool::new(960));
        let first = fill(&room, &sender("a"));
        assert_eq!(first.len(), 48);
        let second = fill(&room, &sender("b"));
        assert_eq!(second.len(), 24);
        let third = fill(&room, &sender("c"));
        assert_eq!(third.len(), 12);
        drop((first, second, third));
        assert_eq!(room.state.lock().free, 960);
        assert!(room.state.lock().senders.is_empty());
    }

    #[test]
    fn the_only_body_of_a_client_leaves_a_quarter_free() {
        let room = Arc::new(BodyPool::new(960));
        let take = |sender: &BodySender, has, bytes| {
            let taken = room.take(sender, has, bytes, bytes).now_or_never();
            taken.map(|held| (held.bytes(), held))
        };
        let (bytes, mut large) = take(&sender("a"), 0, 500).unwrap();
        assert!(take(&sender("a"), bytes, 221).is_none());
        let (_, more) = take(&sender("a"), bytes, 220).unwrap();
        large.merge(more);
        assert_eq!(large.bytes(), 720);
        // It holds its maximum; another client's body still finds room.
        assert!(take(&sender("a"), large.bytes(), 10).is_none());
        assert!(take(&sender("b"), 0, 120).is_some());
        assert!(take(&sender("b"), 0, 121).is_none());
    }

    #[tokio::test]
    async fn a_body_that_waits_gets_the_room_that_another_gives_back() {
        let room = Arc::new(BodyPool::new(100));
        let mut held = fill(&room, &sender("a"));
        assert_eq!(held.len(), 5);
        let own = sender("a");
        let mut waiting = Box::pin(room.take(&own, 0, 10, 10));
        assert!(waiting.as_mut().now_or_never().is_none());
        held.pop();
        assert_eq!(waiting.await.bytes(), 10);
    }

    #[test]
    fn clients_that_hold_nothing_are_forgotten() {
        let room = Arc::new(BodyPool::new(100));
        for number in 0..3 * limits::BODY_SENDERS {
            let sender = sender(&format!("key {number}"));
            // It waits in vain and gives up.
            assert!(room.take(&sender, 0, 200, 200).now_or_never().is_none());
        }
        let count = room.state.lock().senders.len();
        assert!(count <= limits::BODY_SENDERS, "{count}");
    }
}

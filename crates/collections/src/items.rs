//! The free items of a concurrent queue.
//!
//! A position is the epoch in which an item was enqueued and its number there, so
//! positions of two owners never collide. Free positions are kept as ranges: a long queue
//! that was never dequeued from is one range. Items that a transaction has taken are not
//! included; if it aborts, they return.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// The position of an item; also the order in which items are handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ItemPosition {
    pub(crate) epoch: u64,
    pub(crate) number: u64,
}

impl ItemPosition {
    /// The row's key.
    pub(crate) fn key(self) -> [u8; 16] {
        (u128::from(self.epoch) << 64 | u128::from(self.number)).to_be_bytes()
    }

    /// From a row's key.
    pub(crate) fn from_key(key: &[u8]) -> Option<Self> {
        let whole = u128::from_be_bytes(key.try_into().ok()?);
        Some(Self {
            epoch: (whole >> 64) as u64,
            number: whole as u64,
        })
    }
}

/// The free items of one queue.
#[derive(Debug, Default)]
pub(crate) struct FreeItems {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_loaded: bool,
    /// First position of a range, and the number after its last.
    free: BTreeMap<ItemPosition, u64>,
    length: u64,
    next: u64,
}

impl FreeItems {
    pub(crate) fn is_loaded(&self) -> bool {
        self.state.lock().is_loaded
    }

    /// Loads the items of the table, unless another task has.
    pub(crate) fn load(&self, places: impl IntoIterator<Item = ItemPosition>) {
        let mut state = self.state.lock();
        if state.is_loaded {
            return;
        }
        state.is_loaded = true;
        for place in places {
            // It may have been enqueued while the table was read.
            if !state.has(place) {
                state.put(place);
            }
        }
    }

    /// The position of a new item.
    pub(crate) fn next(&self, epoch: u64) -> ItemPosition {
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        ItemPosition { epoch, number }
    }

    /// Takes the first free item.
    pub(crate) fn take(&self) -> Option<ItemPosition> {
        let mut state = self.state.lock();
        let (place, end) = state.free.pop_first()?;
        if place.number + 1 < end {
            let rest = ItemPosition {
                number: place.number + 1,
                ..place
            };
            state.free.insert(rest, end);
        }
        state.length -= 1;
        Some(place)
    }

    /// Makes an item free: it was enqueued, or a dequeue was undone.
    pub(crate) fn put(&self, place: ItemPosition) {
        self.state.lock().put(place);
    }

    /// How many items are free.
    pub(crate) fn len(&self) -> u64 {
        self.state.lock().length
    }

    /// Removes all items; numbering continues.
    pub(crate) fn clear(&self) {
        let mut state = self.state.lock();
        state.free.clear();
        state.length = 0;
        state.is_loaded = true;
    }
}

impl State {
    fn has(&self, place: ItemPosition) -> bool {
        let before = self.free.range(..=place).next_back();
        before.is_some_and(|(start, end)| start.epoch == place.epoch && place.number < *end)
    }

    fn put(&mut self, place: ItemPosition) {
        self.length += 1;
        let next = place.number + 1;
        let mut first = place;
        let before = self.free.range(..place).next_back();
        if let Some((start, end)) = before
            && start.epoch == place.epoch
            && *end == place.number
        {
            first = *start;
        }
        let after = ItemPosition {
            number: next,
            ..place
        };
        let end = self.free.remove(&after).unwrap_or(next);
        self.free.insert(first, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(number: u64) -> ItemPosition {
        ItemPosition { epoch: 1, number }
    }

    #[test]
    fn ranges_join_and_split() {
        let items = FreeItems::default();
        items.put(place(1));
        items.load([place(0), place(1), place(4)]);
        items.put(place(3));
        items.put(place(2));
        assert_eq!(items.state.lock().free.len(), 1, "one range from 0 to 4");
        let taken: Vec<_> = std::iter::from_fn(|| items.take()).collect();
        assert_eq!(taken, [0, 1, 2, 3, 4].map(place));
        items.put(place(3));
        items.put(place(1));
        assert_eq!(items.len(), 2);
        assert_eq!(items.take(), Some(place(1)), "back at the head");
    }

    #[test]
    fn a_place_is_its_key() {
        let place = ItemPosition {
            epoch: 7,
            number: u64::MAX,
        };
        assert_eq!(ItemPosition::from_key(&place.key()), Some(place));
        assert_eq!(ItemPosition::from_key(b"short"), None);
    }
}

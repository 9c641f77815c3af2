//! What the store looked like some time ago.
//!
//! Listings are served from here, so that they are as old as the weather says. One
//! census serves all members who see the same photograph.

use std::collections::VecDeque;
use std::rc::Rc;

use steadfast_core::clock::Timestamp;
use steadfast_ownership::census::Census;
use steadfast_ownership::listing::OwnershipListing;
use steadfast_ownership::strategy::GroupTiming;

/// The store as it was at one moment, counted when first needed.
struct Snapshot {
    at_ms: i64,
    listing: OwnershipListing,
    census: Option<Rc<Census>>,
}

/// Photographs of the store, oldest first.
pub(super) struct Album {
    timing: GroupTiming,
    tick_ms: i64,
    snapshots: VecDeque<Snapshot>,
}

impl Album {
    /// Twenty photographs per interval.
    pub(super) fn new(timing: GroupTiming) -> Self {
        Self {
            timing,
            tick_ms: timing.interval.as_millis() as i64 / 20,
            snapshots: VecDeque::new(),
        }
    }

    /// Takes the photographs that are due before `until_ms`; up to then nothing happens.
    pub(super) fn photograph(&mut self, store: &OwnershipListing, until_ms: i64, stale_ms: i64) {
        let last = self.snapshots.back();
        let next = last.map_or(0, |last| last.at_ms + self.tick_ms);
        if next > until_ms {
            return;
        }
        // They would all show the same: the last one is enough.
        self.snapshots.push_back(Snapshot {
            at_ms: until_ms - until_ms % self.tick_ms,
            listing: store.clone(),
            census: None,
        });
        let oldest = next - stale_ms - self.tick_ms;
        while self.snapshots.len() > 1 && self.snapshots[1].at_ms <= oldest {
            self.snapshots.pop_front();
        }
    }

    /// The newest photograph that is at least as old as `wanted_ms`, counted.
    pub(super) fn census(&mut self, wanted_ms: i64) -> Rc<Census> {
        let taken = |snapshot: &Snapshot| snapshot.at_ms <= wanted_ms;
        let found = self.snapshots.iter().rposition(taken).unwrap_or(0);
        let snapshot = &mut self.snapshots[found];
        let asked = Timestamp(snapshot.at_ms);
        let count = || Rc::new(Census::take(snapshot.listing.clone(), asked, &self.timing));
        Rc::clone(snapshot.census.get_or_insert_with(count))
    }
}

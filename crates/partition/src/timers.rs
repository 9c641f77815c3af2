//! The near end of a partition's timers.
//!
//! Every timer is a row, ordered by due time. Memory holds the ones that are due
//! next, up to the *horizon*; from there on the table is asked for the next page
//! when memory runs low. While a page is on its way, what is scheduled or taken
//! back meanwhile is noted, because the page may or may not show it.
//!
//! When more timers are due than memory holds, the horizon lies in the past, and a new
//! timer lies behind it. Some of these are kept beside the near ones, the soonest, so
//! that such a burst does not delay whatever comes after it.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use steadfast_core::clock::Timestamp;
use steadfast_core::limits;

use crate::draft::Timer;
use crate::near::Near;

#[derive(Default)]
pub(crate) struct Timers {
    near: Near,
    /// Timers from this key on are in the table only; `None`: all are in memory.
    horizon: Option<Bytes>,
    /// Timers behind the horizon that need not keep an order.
    fresh: BTreeMap<Bytes, Bytes>,
    /// Set while a page is on its way.
    meanwhile: Option<Meanwhile>,
    /// Due, handed out, and not yet handled.
    firing: BTreeSet<Bytes>,
}

#[derive(Default)]
struct Meanwhile {
    scheduled: BTreeMap<Bytes, Bytes>,
    cancelled: BTreeSet<Bytes>,
}

impl Timers {
    /// Knows nothing: everything is behind the horizon.
    pub(crate) fn unloaded() -> Self {
        Self {
            horizon: Some(Bytes::new()),
            ..Self::default()
        }
    }

    pub(crate) fn schedule(&mut self, timer: Timer) {
        let Timer {
            key,
            body,
            is_unordered,
        } = timer;
        self.firing.remove(&key);
        if self.is_near(&key) {
            self.near.insert(key, body);
            self.shorten();
            return;
        }
        // Those of a burst are due with the horizon, and come with its next page.
        let is_behind = |horizon: &Bytes| due_of(&key) > due_of(horizon);
        if is_unordered && self.horizon.as_ref().is_some_and(is_behind) {
            self.fresh.insert(key.clone(), body.clone());
            if self.fresh.len() > limits::FRESH_TIMERS {
                self.fresh.pop_last();
            }
        }
        if let Some(meanwhile) = &mut self.meanwhile {
            meanwhile.cancelled.remove(&key);
            meanwhile.scheduled.insert(key, body);
        }
    }

    pub(crate) fn cancel(&mut self, key: &Bytes) {
        self.firing.remove(key);
        self.near.remove(key);
        self.fresh.remove(key);
        self.forget(key);
    }

    /// A page that is on its way may show a timer that is not there any more.
    fn forget(&mut self, key: &Bytes) {
        if let Some(meanwhile) = &mut self.meanwhile {
            meanwhile.scheduled.remove(key);
            meanwhile.cancelled.insert(key.clone());
        }
    }

    /// When the next timer is due.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.near.first().map(|key| due_of(key))
    }

    /// Takes timers that are due at `now`, oldest first. Each fires until
    /// [`Timers::fired`].
    ///
    /// When more are due than may be taken, the last one taken is the one that is
    /// due since just now, so that a burst does not delay whatever comes after it.
    /// An address that has several is not one of those: its timers keep their order,
    /// unless they need not.
    pub(crate) fn take_due(&mut self, now: Timestamp, limit: usize) -> Vec<Timer> {
        let mut due = Vec::new();
        while due.len() < limit {
            let is_last = limit > 1 && due.len() == limit - 1;
            let fresh = if is_last { self.freshest(now) } else { None };
            let Some(key) = fresh.or_else(|| self.oldest(now)) else {
                break;
            };
            let removed = self.near.remove(&key);
            let Some((key, body)) = removed.or_else(|| self.fresh.remove_entry(&key)) else {
                break;
            };
            self.firing.insert(key.clone());
            due.push(Timer {
                key,
                body,
                is_unordered: false,
            });
        }
        due
    }

    fn oldest(&self, now: Timestamp) -> Option<Bytes> {
        let key = self.near.first()?;
        (due_of(key) <= now).then(|| key.clone())
    }

    /// The timer that is due since just now, if its address has no other one.
    fn freshest(&self, now: Timestamp) -> Option<Bytes> {
        let end = now.0.max(0).saturating_add(1) as u64;
        let end = Bytes::copy_from_slice(&end.to_be_bytes());
        // All of these are due later than the near ones.
        if let Some((key, _)) = self.fresh.range(..end.clone()).next_back() {
            return Some(key.clone());
        }
        let key = self.near.last_before(end)?;
        self.near.is_only_one(key).then(|| key.clone())
    }

    /// Whether a timer that was handed out is still wanted.
    pub(crate) fn is_firing(&self, key: &Bytes) -> bool {
        self.firing.contains(key)
    }

    /// A timer was handled.
    pub(crate) fn fired(&mut self, key: &Bytes) {
        if self.firing.remove(key) && !self.is_near(key) {
            self.forget(key);
        }
    }

    /// Where the next page must start, if one is needed. It is then on its way.
    pub(crate) fn begin_page(&mut self) -> Option<Bytes> {
        if self.meanwhile.is_some() || self.near.len() > limits::NEAR_TIMERS / 4 {
            return None;
        }
        let from = self.horizon.clone()?;
        self.meanwhile = Some(Meanwhile::default());
        Some(from)
    }

    /// A page has come. `next` is where the one after it starts.
    pub(crate) fn page(&mut self, rows: Vec<Timer>, next: Option<Bytes>) {
        let Some(meanwhile) = self.meanwhile.take() else {
            return;
        };
        self.horizon = next;
        for Timer { key, body, .. } in rows {
            // One that rings now was taken although it lay behind the horizon.
            if !meanwhile.cancelled.contains(&key) && !self.firing.contains(&key) {
                self.near.insert(key, body);
            }
        }
        for (key, body) in meanwhile.scheduled {
            if self.is_near(&key) && !self.firing.contains(&key) {
                self.near.insert(key, body);
            }
        }
        // What is near now was among these rows.
        self.fresh = match &self.horizon {
            Some(horizon) => self.fresh.split_off(horizon),
            None => BTreeMap::new(),
        };
        self.shorten();
    }

    /// Timers in memory.
    pub(crate) fn len(&self) -> usize {
        self.near.len()
    }

    fn is_near(&self, key: &Bytes) -> bool {
        self.horizon.as_ref().is_none_or(|horizon| key < horizon)
    }

    /// Lets go of the far half when memory holds too many. Not while a page is on
    /// its way: its start is fixed.
    fn shorten(&mut self) {
        if self.near.len() <= limits::NEAR_TIMERS || self.meanwhile.is_some() {
            return;
        }
        if let Some(first) = self.near.truncate(limits::NEAR_TIMERS / 2) {
            self.horizon = Some(first);
        }
    }
}

/// The due time in a timer's key.
pub(crate) fn due_of(key: &[u8]) -> Timestamp {
    let due = key.first_chunk::<8>().copied().unwrap_or_default();
    Timestamp(i64::try_from(u64::from_be_bytes(due)).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::{Address, Kind};
    use crate::draft::timer_key;
    use proptest::prelude::*;

    fn timer(due: i64, tag: u64) -> Timer {
        timer_of("k", due, tag)
    }

    fn timer_of(address: &str, due: i64, tag: u64) -> Timer {
        let to = Address::new(Kind(1), "n", address.to_string());
        let key = timer_key(Timestamp(due), &to, tag);
        let body = Bytes::from(format!("{due}/{tag}"));
        Timer {
            key,
            body,
            is_unordered: false,
        }
    }

    /// Pages of a table, as the owner reads them.
    fn page(
        table: &BTreeMap<Bytes, Bytes>,
        from: &Bytes,
        rows: usize,
    ) -> (Vec<Timer>, Option<Bytes>) {
        let mut found = table.range(from.clone()..);
        let page = found.by_ref().take(rows);
        let page = page.map(|(key, body)| Timer {
            key: key.clone(),
            body: body.clone(),
            is_unordered: false,
        });
        let page: Vec<_> = page.collect();
        (page, found.next().map(|(key, _)| key.clone()))
    }

    /// When what is taken was due.
    fn taken(timers: &mut Timers, now: i64, limit: usize) -> Vec<i64> {
        let taken = timers.take_due(Timestamp(now), limit);
        taken.iter().map(|timer| due_of(&timer.key).0).collect()
    }

    #[test]
    fn a_burst_does_not_delay_what_comes_after_it() {
        let mut timers = Timers::default();
        for number in 0..100 {
            timers.schedule(timer_of(&format!("b{number}"), number, 0));
        }
        timers.schedule(timer_of("canary", 500, 0));
        timers.schedule(timer_of("later", 501, 0));
        assert_eq!(taken(&mut timers, 500, 4), [0, 1, 2, 500]);
    }

    #[test]
    fn a_burst_that_memory_does_not_hold_does_not_delay_what_comes_after_it() {
        let mut timers = Timers::default();
        let burst = 2 * limits::NEAR_TIMERS as i64;
        for number in 0..burst {
            timers.schedule(timer_of(&format!("b{number}"), number, 0));
        }
        let horizon = timers.horizon.clone().unwrap();
        assert!(due_of(&horizon).0 < burst, "all of it is in memory");
        for (address, is_unordered) in [("ordered", false), ("canary", true)] {
            timers.schedule(Timer {
                is_unordered,
                ..timer_of(address, burst, 0)
            });
        }
        assert_eq!(taken(&mut timers, burst, 4), [0, 1, 2, burst]);
        // The other one comes with its page.
        assert_eq!(
            taken(&mut timers, burst, 4),
            [3, 4, 5, due_of(&horizon).0 - 1]
        );
    }

    #[test]
    fn a_burst_at_one_moment_does_not_crowd_out_what_comes_after_it() {
        let mut timers = Timers::default();
        let unordered = |address: &str, due| Timer {
            is_unordered: true,
            ..timer_of(address, due, 0)
        };
        let burst = limits::NEAR_TIMERS + limits::FRESH_TIMERS;
        for number in 0..2 * burst {
            timers.schedule(unordered(&format!("b{number}"), 7));
            if number == burst {
                timers.schedule(unordered("canary", 8));
            }
        }
        assert_eq!(taken(&mut timers, 8, 4), [7, 7, 7, 8]);
    }

    #[test]
    fn the_timers_of_one_address_keep_their_order() {
        let mut timers = Timers::default();
        for number in 0..100 {
            timers.schedule(timer_of(&format!("b{number}"), number, 0));
        }
        timers.schedule(timer_of("canary", 50, 1));
        timers.schedule(timer_of("canary", 500, 0));
        assert_eq!(taken(&mut timers, 500, 4), [0, 1, 2, 3]);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Schedule(i64, u64, bool),
        Cancel(i64, u64),
        BeginPage,
        EndPage,
        Fire(i64, usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0i64..200, 0u64..4, any::<bool>())
                .prop_map(|(due, tag, is_unordered)| Step::Schedule(due, tag, is_unordered)),
            2 => (0i64..200, 0u64..4).prop_map(|(due, tag)| Step::Cancel(due, tag)),
            1 => Just(Step::BeginPage),
            1 => Just(Step::EndPage),
            2 => (0i64..200, 1usize..6).prop_map(|(at, limit)| Step::Fire(at, limit)),
        ]
    }

    proptest! {
        /// Whatever the pages show, each timer in the table fires once when it is due.
        #[test]
        fn every_timer_fires_once(
            steps in proptest::collection::vec(step(), 1..200),
            before in proptest::collection::btree_set((0i64..200, 0u64..4), 0..50),
            rows in 1usize..20, early in any::<bool>(),
        ) {
            let row = |(due, tag)| { let timer = timer(due, tag); (timer.key, timer.body) };
            let mut table: BTreeMap<_, _> = before.into_iter().map(row).collect();
            let mut timers = Timers::unloaded();
            let mut on_its_way = None;
            let mut now = 0;
            let mut handed = Vec::new();
            let handle = |timers: &mut Timers, table: &mut BTreeMap<Bytes, Bytes>, due: Timer| {
                if timers.is_firing(&due.key) {
                    assert_eq!(table.remove(&due.key).as_ref(), Some(&due.body));
                    timers.fired(&due.key);
                }
            };
            let fire = |timers: &mut Timers, table: &mut BTreeMap<Bytes, Bytes>, now: i64| {
                for due in timers.take_due(Timestamp(now), 1000) {
                    handle(timers, table, due);
                }
            };
            for step in steps {
                match step {
                    Step::Schedule(due, tag, is_unordered) => {
                        let timer = Timer { is_unordered, ..timer(due, tag) };
                        table.insert(timer.key.clone(), timer.body.clone());
                        timers.schedule(timer);
                    }
                    Step::Cancel(due, tag) => {
                        let timer = timer(due, tag);
                        table.remove(&timer.key);
                        timers.cancel(&timer.key);
                    }
                    Step::BeginPage => if let Some(from) = timers.begin_page() {
                        on_its_way = Some((from.clone(), page(&table, &from, rows)));
                    },
                    // The page may show the table as it was, or as it is.
                    Step::EndPage => if let Some((from, old)) = on_its_way.take() {
                        let (found, next) = if early { old } else { page(&table, &from, rows) };
                        timers.page(found, next);
                    },
                    // What is handed out is handled some steps later.
                    Step::Fire(at, limit) => {
                        now = now.max(at);
                        for due in std::mem::take(&mut handed) {
                            handle(&mut timers, &mut table, due);
                        }
                        handed = timers.take_due(Timestamp(now), limit);
                    }
                }
            }
            for due in handed { handle(&mut timers, &mut table, due); }
            if let Some((_, (found, next))) = on_its_way { timers.page(found, next); }
            for _ in 0..300 {
                fire(&mut timers, &mut table, now);
                if let Some(from) = timers.begin_page() {
                    let (found, next) = page(&table, &from, rows);
                    timers.page(found, next);
                }
            }
            fire(&mut timers, &mut table, now);
            let late = table.keys().filter(|key| due_of(key).0 <= now).count();
            prop_assert_eq!(late, 0, "a due timer has not fired");
        }
    }
}

//! Timers of a partition that are due next.
//!
//! Every timer is a row, ordered by due time. Memory holds the ones that are due next,
//! up to the *horizon*; beyond it the next page is read from the table when memory runs
//! low. While a page is being read, timers that are scheduled or cancelled are noted,
//! because the page may or may not contain them.
//!
//! When more timers are due than memory holds, the horizon lies in the past. Timers of
//! services that keep no order are then read ahead of it, so that such a burst does not
//! delay timers that become due after it.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use steadfast_core::clock::Timestamp;
use steadfast_core::limits;

use crate::execution::pending_effects::{Timer, due_of, timer_kind};
use crate::ingress::address::ServiceKind;
use crate::timing::timer_index::TimerIndex;
use crate::timing::timer_lookahead::TimerLookahead;

#[derive(Default)]
pub(crate) struct Timers {
    /// Services whose timers need not keep an order.
    unordered: Vec<ServiceKind>,
    index: TimerIndex,
    /// Timers from this key on are in the table only; `None`: all are in memory.
    horizon: Option<Bytes>,
    /// Timers behind the horizon that need not keep an order.
    ahead: TimerLookahead,
    /// Set while a page is being read.
    meanwhile: Option<TimerChanges>,
    /// Set while rows ahead of the pages are being read: where they begin.
    look: Option<(Bytes, TimerChanges)>,
    /// Due, handed out, and not yet handled.
    firing: BTreeSet<Bytes>,
}

#[derive(Default)]
struct TimerChanges {
    scheduled: BTreeMap<Bytes, Bytes>,
    cancelled: BTreeSet<Bytes>,
}

impl TimerChanges {
    fn schedule(&mut self, key: Bytes, body: Bytes) {
        self.cancelled.remove(&key);
        self.scheduled.insert(key, body);
    }

    fn cancel(&mut self, key: &Bytes) {
        self.scheduled.remove(key);
        self.cancelled.insert(key.clone());
    }
}

impl Timers {
    /// Empty: everything is behind the horizon.
    pub(crate) fn unloaded(unordered: Vec<ServiceKind>) -> Self {
        Self {
            unordered,
            horizon: Some(Bytes::new()),
            ..Self::default()
        }
    }

    pub(crate) fn schedule(&mut self, timer: Timer) {
        let Timer { key, body } = timer;
        self.firing.remove(&key);
        if self.is_near(&key) {
            self.index.insert(key, body);
            self.shorten();
            return;
        }
        if self.is_unordered(&key) {
            self.ahead.schedule(key.clone(), body.clone());
            if let Some((_, meanwhile)) = &mut self.look {
                meanwhile.schedule(key.clone(), body.clone());
            }
        }
        if let Some(meanwhile) = &mut self.meanwhile {
            meanwhile.schedule(key, body);
        }
    }

    pub(crate) fn cancel(&mut self, key: &Bytes) {
        self.firing.remove(key);
        self.index.remove(key);
        self.ahead.remove(key);
        self.forget(key);
    }

    /// A page that is being read may contain a timer that was removed.
    fn forget(&mut self, key: &Bytes) {
        if let Some(meanwhile) = &mut self.meanwhile {
            meanwhile.cancel(key);
        }
        if let Some((_, meanwhile)) = &mut self.look {
            meanwhile.cancel(key);
        }
    }

    /// When the next timer is due.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.index.first().map(|key| due_of(key))
    }

    /// Takes timers that are due at `now`, oldest first. Each fires until
    /// [`Timers::fired`].
    ///
    /// When more are due than may be taken, the last one taken is the one that has
    /// become due most recently, so that a burst does not delay later timers. An
    /// address with several timers is excluded, so that they keep their order, unless
    /// they need not.
    pub(crate) fn take_due(&mut self, now: Timestamp, limit: usize) -> Vec<Timer> {
        let mut due = Vec::new();
        while due.len() < limit {
            let is_last = limit > 1 && due.len() == limit - 1;
            let fresh = if is_last { self.freshest(now) } else { None };
            let Some(key) = fresh.or_else(|| self.oldest(now)) else {
                break;
            };
            let removed = self.index.remove(&key);
            let Some((key, body)) = removed.or_else(|| self.ahead.remove(&key)) else {
                break;
            };
            self.firing.insert(key.clone());
            due.push(Timer { key, body });
        }
        due
    }

    fn oldest(&self, now: Timestamp) -> Option<Bytes> {
        let key = self.index.first()?;
        (due_of(key) <= now).then(|| key.clone())
    }

    /// The timer that has become due most recently, if no other one must fire before
    /// it.
    fn freshest(&self, now: Timestamp) -> Option<Bytes> {
        let end = now.0.max(0).saturating_add(1) as u64;
        let end = Bytes::copy_from_slice(&end.to_be_bytes());
        // All of these are due later than the near ones.
        if let Some(key) = self.ahead.last_before(end.clone()) {
            return Some(key.clone());
        }
        let key = self.index.last_before(end)?;
        let is_free = self.is_unordered(key) || self.index.is_only_one(key);
        is_free.then(|| key.clone())
    }

    /// Whether a timer that was handed out was not cancelled.
    pub(crate) fn is_firing(&self, key: &Bytes) -> bool {
        self.firing.contains(key)
    }

    /// A timer was handled.
    pub(crate) fn fired(&mut self, key: &Bytes) {
        if self.firing.remove(key) && !self.is_near(key) {
            self.forget(key);
        }
    }

    /// Where the next page starts, if one is needed. The caller then reads it.
    pub(crate) fn begin_page(&mut self) -> Option<Bytes> {
        if self.meanwhile.is_some() || self.index.len() > limits::NEAR_TIMERS / 4 {
            return None;
        }
        let from = self.horizon.clone()?;
        self.meanwhile = Some(TimerChanges::default());
        Some(from)
    }

    /// A page has been read. `next` is where the one after it starts.
    pub(crate) fn page(&mut self, rows: Vec<Timer>, next: Option<Bytes>) {
        let Some(meanwhile) = self.meanwhile.take() else {
            return;
        };
        self.horizon = next;
        for Timer { key, body } in rows {
            // A timer that is firing was taken although it lay behind the horizon.
            if !meanwhile.cancelled.contains(&key) && !self.firing.contains(&key) {
                self.index.insert(key, body);
            }
        }
        for (key, body) in meanwhile.scheduled {
            if self.is_near(&key) && !self.firing.contains(&key) {
                self.index.insert(key, body);
            }
        }
        // The timers in the index were among these rows.
        self.ahead.trim(self.horizon.as_ref());
        self.shorten();
    }

    /// Where to read ahead of the pages, if timers that are due at `now` may lie behind
    /// them. The caller then reads the rows.
    pub(crate) fn begin_look(&mut self, now: Timestamp) -> Option<Bytes> {
        if self.look.is_some() || self.unordered.is_empty() {
            return None;
        }
        let from = self.ahead.start(self.horizon.as_ref()?, now)?;
        self.look = Some((from.clone(), TimerChanges::default()));
        Some(from)
    }

    /// Rows ahead of the pages have been read. `next` is the row behind them.
    pub(crate) fn looked(&mut self, rows: Vec<Timer>, next: Option<Bytes>) {
        let Some((from, meanwhile)) = self.look.take() else {
            return;
        };
        let last = rows.last().map(|row| due_of(&row.key));
        self.ahead.begin(from, last, next);
        for Timer { key, body } in rows {
            let is_wanted = !meanwhile.cancelled.contains(&key) && !self.firing.contains(&key);
            if is_wanted && !self.is_near(&key) && self.is_unordered(&key) {
                self.ahead.add(key, body);
            }
        }
        for (key, body) in meanwhile.scheduled {
            if !self.is_near(&key) && !self.firing.contains(&key) {
                self.ahead.schedule(key, body);
            }
        }
        self.ahead.trim(self.horizon.as_ref());
        self.shorten();
    }

    /// Timers in memory.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    fn is_unordered(&self, key: &Bytes) -> bool {
        timer_kind(key).is_some_and(|kind| self.unordered.contains(&kind))
    }

    fn is_near(&self, key: &Bytes) -> bool {
        self.horizon.as_ref().is_none_or(|horizon| key < horizon)
    }

    /// Drops the later half when memory holds too many. Not while rows are being read:
    /// where they start is fixed.
    fn shorten(&mut self) {
        let is_reading = self.meanwhile.is_some() || self.look.is_some();
        if self.index.len() <= limits::NEAR_TIMERS || is_reading {
            return;
        }
        if let Some(first) = self.index.truncate(limits::NEAR_TIMERS / 2) {
            self.horizon = Some(first);
            self.ahead.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execution::pending_effects::timer_key;
    use crate::ingress::address::Address;
    use proptest::prelude::*;

    const UNORDERED: ServiceKind = ServiceKind(2);

    fn timer(due: i64, tag: u64, is_unordered: bool) -> Timer {
        let kind = if is_unordered {
            UNORDERED
        } else {
            ServiceKind(1)
        };
        timer_to(&Address::new(kind, "n", "k"), due, tag)
    }

    fn timer_of(address: &str, due: i64, tag: u64) -> Timer {
        timer_to(
            &Address::new(ServiceKind(1), "n", address.to_string()),
            due,
            tag,
        )
    }

    fn timer_to(to: &Address, due: i64, tag: u64) -> Timer {
        let key = timer_key(Timestamp(due), to, tag);
        let body = Bytes::from(format!("{due}/{tag}"));
        Timer { key, body }
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
        });
        let page: Vec<_> = page.collect();
        (page, found.next().map(|(key, _)| key.clone()))
    }

    /// The due times of the timers that are taken.
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

    /// A timer of a service that keeps no order.
    fn unordered(address: &str, due: i64) -> Timer {
        let to = Address::new(UNORDERED, "n", address.to_string());
        let key = timer_key(Timestamp(due), &to, 0);
        let body = Bytes::from(due.to_string());
        Timer { key, body }
    }

    /// The timers of a partition that has just been loaded from the table.
    fn loaded(table: &BTreeMap<Bytes, Bytes>) -> Timers {
        let mut timers = Timers::unloaded(vec![UNORDERED]);
        let from = timers.begin_page().unwrap();
        let (rows, next) = page(table, &from, limits::NEAR_TIMERS / 2);
        timers.page(rows, next);
        timers
    }

    /// Reads the rows that the timers need.
    fn read(timers: &mut Timers, table: &BTreeMap<Bytes, Bytes>, now: i64) {
        if let Some(from) = timers.begin_page() {
            let (rows, next) = page(table, &from, limits::NEAR_TIMERS / 2);
            timers.page(rows, next);
        }
        if let Some(from) = timers.begin_look(Timestamp(now)) {
            let (rows, next) = page(table, &from, limits::FRESH_TIMERS);
            timers.looked(rows, next);
        }
    }

    fn put(table: &mut BTreeMap<Bytes, Bytes>, timer: Timer) {
        table.insert(timer.key, timer.body);
    }

    /// How many timers fire before the one that is due at `due`.
    fn rings_after(
        timers: &mut Timers,
        table: &mut BTreeMap<Bytes, Bytes>,
        due: i64,
        now: i64,
    ) -> usize {
        let mut before = 0;
        loop {
            read(timers, table, now);
            let rung = timers.take_due(Timestamp(now), limits::TURN_LOOK);
            assert!(!rung.is_empty(), "it has not rung");
            for Timer { key, .. } in rung {
                assert!(table.remove(&key).is_some(), "it rings twice");
                timers.fired(&key);
                if due_of(&key).0 == due {
                    return before;
                }
                before += 1;
            }
        }
    }

    #[test]
    fn a_burst_of_100_000_does_not_delay_a_timer_that_was_scheduled_before_it() {
        for spread in [1, 100, 100_000] {
            let mut table = BTreeMap::new();
            let mut timers = loaded(&table);
            let canary = unordered("canary", 200_000);
            timers.schedule(canary.clone());
            put(&mut table, canary);
            for number in 0..100_000 {
                let timer = unordered(&format!("b{number}"), 1 + number % spread);
                timers.schedule(timer.clone());
                put(&mut table, timer);
            }
            assert!(timers.len() <= limits::NEAR_TIMERS);
            // The burst takes a while; then the other one is due.
            rings_after(&mut timers, &mut table, 1, 150_000);
            let before = rings_after(&mut timers, &mut table, 200_000, 200_000);
            assert!(
                before < 5_000,
                "spread over {spread} ms: {before} before it"
            );
        }
    }

    #[test]
    fn a_burst_of_100_000_does_not_delay_a_timer_after_a_restart() {
        let mut table = BTreeMap::new();
        for number in 0..100_000 {
            put(&mut table, unordered(&format!("b{number}"), 7));
        }
        put(&mut table, unordered("canary", 8));
        let mut timers = loaded(&table);
        let before = rings_after(&mut timers, &mut table, 8, 9);
        assert!(before < limits::TURN_LOOK, "{before} before it");
        // A timer that is scheduled while the burst runs.
        let canary = unordered("canary", 10);
        put(&mut table, canary.clone());
        timers.schedule(canary);
        let before = rings_after(&mut timers, &mut table, 10, 10);
        assert!(before < limits::TURN_LOOK, "{before} before it");
    }

    #[test]
    fn a_second_burst_does_not_hide_what_is_due_behind_it() {
        let mut table = BTreeMap::new();
        for number in 0..20_000 {
            put(&mut table, unordered(&format!("b{number}"), 7));
            put(&mut table, unordered(&format!("c{number}"), 900));
        }
        put(&mut table, unordered("canary", 901));
        let mut timers = loaded(&table);
        rings_after(&mut timers, &mut table, 7, 800);
        let before = rings_after(&mut timers, &mut table, 901, 1000);
        assert!(before < 4 * limits::TURN_LOOK, "{before} before it");
    }

    #[test]
    fn a_timer_of_a_service_that_keeps_order_comes_with_its_page() {
        let mut table = BTreeMap::new();
        let burst = limits::NEAR_TIMERS as i64;
        for number in 0..burst {
            put(&mut table, timer_of(&format!("b{number}"), 7, 0));
        }
        put(&mut table, timer_of("ordered", 8, 0));
        let mut timers = loaded(&table);
        let before = rings_after(&mut timers, &mut table, 8, 9);
        assert!(before > limits::NEAR_TIMERS / 4, "{before} before it");
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
    enum TimerStep {
        Schedule(i64, u64, bool),
        Cancel(i64, u64, bool),
        BeginLook,
        EndLook,
        BeginPage,
        EndPage,
        Fire(i64, usize),
    }

    fn step() -> impl Strategy<Value = TimerStep> {
        prop_oneof![
            4 => (0i64..200, 0u64..4, any::<bool>())
                .prop_map(|(due, tag, is_unordered)| TimerStep::Schedule(due, tag, is_unordered)),
            2 => (0i64..200, 0u64..4, any::<bool>())
                .prop_map(|(due, tag, is_unordered)| TimerStep::Cancel(due, tag, is_unordered)),
            1 => Just(TimerStep::BeginLook),
            1 => Just(TimerStep::EndLook),
            1 => Just(TimerStep::BeginPage),
            1 => Just(TimerStep::EndPage),
            2 => (0i64..200, 1usize..6).prop_map(|(at, limit)| TimerStep::Fire(at, limit)),
        ]
    }

    proptest! {
        /// Whatever the pages show, each timer in the table fires once when it is due.
        #[test]
        fn every_timer_fires_once(
            steps in proptest::collection::vec(step(), 1..200),
            before in proptest::collection::btree_set((0i64..200, 0u64..4, any::<bool>()), 0..50),
            rows in 1usize..20, early in any::<bool>(),
        ) {
            let row = |(due, tag, free)| { let timer = timer(due, tag, free); (timer.key, timer.body) };
            let mut table: BTreeMap<_, _> = before.into_iter().map(row).collect();
            let mut timers = Timers::unloaded(vec![UNORDERED]);
            let mut on_its_way = None;
            let mut look = None;
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
                    TimerStep::Schedule(due, tag, is_unordered) => {
                        let timer = timer(due, tag, is_unordered);
                        table.insert(timer.key.clone(), timer.body.clone());
                        timers.schedule(timer);
                    }
                    TimerStep::Cancel(due, tag, is_unordered) => {
                        let timer = timer(due, tag, is_unordered);
                        table.remove(&timer.key);
                        timers.cancel(&timer.key);
                    }
                    TimerStep::BeginPage => if let Some(from) = timers.begin_page() {
                        on_its_way = Some((from.clone(), page(&table, &from, rows)));
                    },
                    // The page may show the table as it was, or as it is.
                    TimerStep::EndPage => if let Some((from, old)) = on_its_way.take() {
                        let (found, next) = if early { old } else { page(&table, &from, rows) };
                        timers.page(found, next);
                    },
                    TimerStep::BeginLook => if let Some(from) = timers.begin_look(Timestamp(now)) {
                        look = Some((from.clone(), page(&table, &from, rows)));
                    },
                    TimerStep::EndLook => if let Some((from, old)) = look.take() {
                        let (found, next) = if early { old } else { page(&table, &from, rows) };
                        timers.looked(found, next);
                    },
                    // What is handed out is handled some steps later.
                    TimerStep::Fire(at, limit) => {
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
            if let Some((_, (found, next))) = look { timers.looked(found, next); }
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

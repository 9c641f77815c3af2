//! Timers read ahead of their page.
//!
//! When more timers are due than memory holds, the horizon lies in the past and the
//! timers behind it are loaded page by page. Those that need not keep an order are read
//! a second time, ahead of the pages: a window over the table that follows the clock.
//! It holds all such timers between its begin and its end, whether they were scheduled
//! before the burst or during it. Where very many are due at one moment, the window
//! holds the first ones and continues behind that moment; the rest are loaded with
//! their pages.

use std::collections::BTreeMap;

use bytes::Bytes;
use steadfast_core::clock::Timestamp;
use steadfast_core::limits;

use crate::execution::pending_effects::due_of;

#[derive(Default)]
pub(crate) struct TimerLookahead {
    by_key: BTreeMap<Bytes, Bytes>,
    span: Option<LoadedRange>,
}

/// The range of keys whose timers are all in memory.
struct LoadedRange {
    begin: Bytes,
    end: Option<RangeEnd>,
}

struct RangeEnd {
    /// The first key that is not in memory.
    key: Bytes,
    /// Where the next read starts.
    next: Bytes,
}

impl RangeEnd {
    /// The end of a window whose last timer is due at `last`.
    fn new(key: Bytes, last: Option<Timestamp>) -> Self {
        let due = due_of(&key);
        let next = if last == Some(due) {
            moment_after(due)
        } else {
            key.clone()
        };
        Self { key, next }
    }
}

impl TimerLookahead {
    /// Where to read, if the window does not reach `now`.
    pub(crate) fn start(&self, horizon: &Bytes, now: Timestamp) -> Option<Bytes> {
        let due = due_of(horizon);
        // Nothing has been read yet, or all of it is in memory.
        if horizon.is_empty() || due > now {
            return None;
        }
        let behind = moment_after(due);
        let Some(LoadedRange { end, .. }) = &self.span else {
            return Some(behind);
        };
        let end = end.as_ref()?;
        (due_of(&end.next) <= now).then(|| end.next.clone().max(behind))
    }

    /// Rows from `begin` on have been read, and `next` is the row behind them. `last` is
    /// when the last one is due.
    pub(crate) fn begin(&mut self, begin: Bytes, last: Option<Timestamp>, next: Option<Bytes>) {
        let end = next.map(|key| RangeEnd::new(key, last));
        self.span = Some(LoadedRange { begin, end });
    }

    /// Adds a timer that was read. If there are too many, the oldest is dropped: it is
    /// loaded with its page.
    pub(crate) fn add(&mut self, key: Bytes, body: Bytes) {
        self.by_key.insert(key, body);
        if self.by_key.len() > limits::FRESH_TIMERS {
            self.by_key.pop_first();
        }
    }

    /// A timer was scheduled. If there are too many, the latest is dropped: it is read
    /// again when it is due.
    pub(crate) fn schedule(&mut self, key: Bytes, body: Bytes) {
        let Some(span) = &mut self.span else {
            return;
        };
        let is_held = |end: &RangeEnd| key < end.key;
        if key < span.begin || !span.end.as_ref().is_none_or(is_held) {
            return;
        }
        self.by_key.insert(key, body);
        if self.by_key.len() > limits::FRESH_TIMERS
            && let Some((key, _)) = self.by_key.pop_last()
        {
            let last = self.by_key.keys().next_back().map(|key| due_of(key));
            span.end = Some(RangeEnd::new(key, last));
        }
    }

    /// The last timer before `end`.
    pub(crate) fn last_before(&self, end: Bytes) -> Option<&Bytes> {
        self.by_key.range(..end).next_back().map(|(key, _)| key)
    }

    pub(crate) fn remove(&mut self, key: &Bytes) -> Option<(Bytes, Bytes)> {
        self.by_key.remove_entry(key)
    }

    /// The horizon has advanced: drops what lies before it.
    pub(crate) fn trim(&mut self, horizon: Option<&Bytes>) {
        let Some(horizon) = horizon else {
            *self = Self::default();
            return;
        };
        self.by_key = self.by_key.split_off(horizon);
        let end = self.span.as_ref().and_then(|span| span.end.as_ref());
        if end.is_some_and(|end| end.key <= *horizon) {
            self.span = None;
        }
    }

    /// The horizon has moved back: the window starts again.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// The key before every timer that is due later than `due`.
fn moment_after(due: Timestamp) -> Bytes {
    let next = due.0.max(0).saturating_add(1) as u64;
    Bytes::copy_from_slice(&next.to_be_bytes())
}

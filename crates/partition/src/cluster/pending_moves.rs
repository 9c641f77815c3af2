//! Acquisitions in progress, and those to retry.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::task::JoinSet;

use crate::error::Result;

/// How long changes are collected before they are handled.
pub(super) const COLLECT: Duration = Duration::from_millis(20);

/// How soon a failed operation is retried.
pub(super) const RETRY: Duration = Duration::from_millis(200);

/// The acquisitions and hand-overs of a node.
#[derive(Default)]
pub(super) struct PendingMoves {
    pub(super) moves: JoinSet<(u16, Result<()>)>,
    pub(super) taking: BTreeSet<u16>,
    /// Since when partitions have no owner.
    pub(super) idle: BTreeMap<u16, Duration>,
    /// A failed partition is not retried before this time.
    later: BTreeMap<u16, Duration>,
}

impl PendingMoves {
    pub(super) fn ended(&mut self, done: Option<(u16, Result<()>)>, now: Duration) {
        let Some((index, taken)) = done else {
            return;
        };
        self.taking.remove(&index);
        match taken {
            Ok(()) => drop(self.later.remove(&index)),
            Err(_) => drop(self.later.insert(index, now + RETRY)),
        }
    }

    pub(super) fn may_try(&self, index: u16, now: Duration) -> bool {
        let later = self.later.get(&index);
        !self.taking.contains(&index) && later.is_none_or(|later| *later <= now)
    }

    /// The time until the next retry.
    pub(super) fn pause(&self, now: Duration) -> Duration {
        let next = self.later.values().filter(|later| **later > now).min();
        next.map_or(Duration::MAX, |next| next.saturating_sub(now).max(COLLECT))
    }

    pub(super) fn note_idle(&mut self, idle: &[u16], now: Duration) {
        self.idle.retain(|index, _| idle.contains(index));
        self.later.retain(|_, later| *later + RETRY * 5 > now);
        for index in idle {
            self.idle.entry(*index).or_insert(now);
        }
    }
}

//! Immediate detection of deadlocks.
//!
//! Every new cycle of waits goes through the transaction that has just begun to
//! wait: a grant adds no wait for a transaction that itself waits. So each
//! transaction searches once, when it joins the waiters of a lock, from itself along
//! the waits of others. In a cycle the youngest one is the victim: its wait ends, and it
//! keeps its locks until its user ends it. The oldest one of all is never a victim,
//! so there is always progress.
//!
//! The search looks at one lock at a time, under its latch only. Locks are kept until
//! their transaction ends, so a cycle that it finds is one, unless a waiter in it has
//! timed out since; then one wait ends early that would have been granted.

use std::collections::HashMap;
use std::sync::Arc;

use steadfast_core::limits;

use crate::lock::latch::{Latch, LatchCell};
use crate::lock::owner::LockOwner;
use crate::lock::table::{LockTable, WaitOutcome};
use crate::lock::word::WaitEdges;

impl<L: Latch> LockTable<L> {
    /// In every cycle that `owner` closes by waiting, ends the youngest transaction's
    /// wait.
    pub(crate) fn break_cycles(&self, owner: &Arc<LockOwner<L>>) {
        if !self.is_waited_for(owner) {
            return;
        }
        // Each pass ends a wait, or finds that it has just ended.
        for _ in 0..limits::DEADLOCK_PASSES {
            let Some(cycle) = self.cycle(owner) else {
                return;
            };
            let youngest = cycle.iter().max_by_key(|one| (one.rank, one.id));
            let Some(youngest) = youngest else {
                return;
            };
            self.give_up(youngest, &cycle);
            if youngest == owner {
                return;
            }
        }
    }

    /// Whether another transaction waits for a lock of this one. Nearly always it is
    /// quicker to see that none does than to search for a cycle.
    fn is_waited_for(&self, owner: &Arc<LockOwner<L>>) -> bool {
        let Some(held) = owner.few_held(limits::DEADLOCK_HELD) else {
            return true;
        };
        held.iter().any(|kept| {
            let name = kept.name();
            self.shard(name).with(|shard| {
                let row = shard.find(name);
                row.is_some_and(|row| row.lock.waiters().any(|waiter| waiter.owner != *owner))
            })
        })
    }

    /// A cycle of waits through `start`, if there is one.
    fn cycle(&self, start: &Arc<LockOwner<L>>) -> Option<Vec<Arc<LockOwner<L>>>> {
        let mut search = CycleSearch {
            start: Arc::clone(start),
            waits_for: HashMap::new(),
        };
        let mut open = vec![Arc::clone(start)];
        while let Some(next) = open.pop() {
            let Some(waits) = self.waits_of(&next) else {
                continue;
            };
            // Waiters before it wait for the same lock: `waits` has their edges too.
            for ahead in waits.ahead {
                if search.closes(&next, &ahead) {
                    return Some(search.path(&next));
                }
            }
            for (waiter, holder) in waits.holders {
                let is_new = !search.waits_for.contains_key(&holder.id);
                if search.closes(&waiter, &holder) {
                    return Some(search.path(&waiter));
                }
                if is_new {
                    open.push(holder);
                }
            }
            if search.waits_for.len() > limits::DEADLOCK_SEARCH {
                return None;
            }
        }
        None
    }

    /// The transactions that a transaction waits for.
    fn waits_of(&self, owner: &Arc<LockOwner<L>>) -> Option<WaitEdges<Arc<LockOwner<L>>>> {
        let kept = owner.waiting()?;
        let name = kept.name();
        self.shard(name)
            .with(|shard| shard.find(name)?.lock.waits_of(owner))
    }

    /// Ends the wait of a transaction.
    fn give_up(&self, owner: &Arc<LockOwner<L>>, cycle: &[Arc<LockOwner<L>>]) {
        let Some(kept) = owner.waiting() else {
            return;
        };
        let name = kept.name();
        self.shard(name).with(|shard| {
            let wake = shard.find(name).and_then(|row| row.lock.evict(owner));
            if let Some(wake) = wake {
                let others = cycle.iter().filter(|other| *other != owner);
                // A waiter that was dropped at this moment needs no outcome.
                let _ = wake.send(WaitOutcome::Deadlock(
                    others.map(|other| other.id).collect(),
                ));
            }
            self.serve(shard, name);
            shard.tidy(name);
        });
    }
}

/// A search through waits.
struct CycleSearch<L: Latch> {
    start: Arc<LockOwner<L>>,
    /// The owners found so far, each with the owner that waits for it.
    waits_for: HashMap<u64, Arc<LockOwner<L>>>,
}

impl<L: Latch> CycleSearch<L> {
    /// Records that `waiter` waits for `other`; returns whether that closes a cycle.
    fn closes(&mut self, waiter: &Arc<LockOwner<L>>, other: &Arc<LockOwner<L>>) -> bool {
        if *other == self.start {
            return true;
        }
        let found = self.waits_for.entry(other.id);
        found.or_insert_with(|| Arc::clone(waiter));
        false
    }

    /// The path from the start to `last`.
    fn path(&self, last: &Arc<LockOwner<L>>) -> Vec<Arc<LockOwner<L>>> {
        let before = |one: &Arc<LockOwner<L>>| {
            if *one == self.start {
                None
            } else {
                self.waits_for.get(&one.id).cloned()
            }
        };
        std::iter::successors(Some(Arc::clone(last)), before).collect()
    }
}

//! The lock of one row: its holders and its waiters.
//!
//! Pure: no clock, no thread, no task. Rules:
//!
//! - waiters are served in order, and a request waits when others wait, even if it
//!   would fit;
//! - a holder that wants more gets it at once if the other holders allow it, else
//!   it waits before all who hold nothing;
//! - a holder that wants less or the same has it already.
//!
//! One holder needs no memory beside the word itself.

use std::collections::VecDeque;

use crate::lock::mode::LockStrength;

/// Locks one row for owners `O`; a waiter is woken by `W`.
#[derive(Debug)]
pub struct LockWord<O, W> {
    first: Option<RowLockHolder<O>>,
    more: Vec<RowLockHolder<O>>,
    waiters: VecDeque<RowLockWaiter<O, W>>,
    next_ticket: u64,
}

/// An owner that has the lock.
#[derive(Clone, Debug)]
pub struct RowLockHolder<O> {
    pub owner: O,
    pub mode: LockStrength,
    /// When it was granted, in microseconds of the caller's clock.
    pub since_us: u64,
}

/// An owner that waits for the lock.
#[derive(Debug)]
pub struct RowLockWaiter<O, W> {
    pub owner: O,
    pub mode: LockStrength,
    pub since_us: u64,
    ticket: u64,
    is_upgrade: bool,
    wake: W,
}

/// The owners that a waiter waits for, and those that the waiters before it wait for.
#[derive(Debug, PartialEq, Eq)]
pub struct WaitEdges<O> {
    /// Waiters that are served before it.
    pub ahead: Vec<O>,
    /// Edges to holders: the waiter, and the holder that it waits for.
    pub holders: Vec<(O, O)>,
}

/// The response to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockResponse {
    /// The owner had it before.
    Held,
    /// The owner has it now, and held nothing before.
    Granted,
    /// The owner has more than it had.
    Upgraded,
    /// Not granted: join the waiters.
    Busy,
}

impl<O: Clone + PartialEq, W> LockWord<O, W> {
    /// A lock without holders.
    pub fn new() -> Self {
        Self {
            first: None,
            more: Vec::new(),
            waiters: VecDeque::new(),
            next_ticket: 0,
        }
    }

    /// Takes the lock if that is possible at once.
    pub fn request(&mut self, owner: &O, mode: LockStrength, now_us: u64) -> LockResponse {
        let held = self.mode_of(owner);
        if held.is_some_and(|held| held.includes(mode)) {
            return LockResponse::Held;
        }
        let may_pass = held.is_some() || self.waiters.is_empty();
        if !may_pass || !self.fits(owner, mode) {
            return LockResponse::Busy;
        }
        self.hold(owner, mode, now_us);
        match held {
            Some(_) => LockResponse::Upgraded,
            None => LockResponse::Granted,
        }
    }

    /// Joins the waiters and returns the ticket for [`LockWord::cancel`].
    pub fn wait(&mut self, owner: &O, mode: LockStrength, now_us: u64, wake: W) -> u64 {
        let is_upgrade = self.mode_of(owner).is_some();
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let waiter = RowLockWaiter {
            owner: owner.clone(),
            mode,
            since_us: now_us,
            ticket,
            is_upgrade,
            wake,
        };
        let place = if is_upgrade {
            self.waiters.partition_point(|other| other.is_upgrade)
        } else {
            self.waiters.len()
        };
        self.waiters.insert(place, waiter);
        ticket
    }

    /// Leaves the waiters; false if the lock was granted before.
    pub fn cancel(&mut self, ticket: u64) -> bool {
        let place = self.waiters.iter().position(|w| w.ticket == ticket);
        match place {
            Some(place) => self.waiters.remove(place).is_some(),
            None => false,
        }
    }

    /// Removes an owner from the waiters; returns its waker.
    pub fn evict(&mut self, owner: &O) -> Option<W> {
        let place = self.waiters.iter().position(|w| w.owner == *owner)?;
        self.waiters.remove(place).map(|waiter| waiter.wake)
    }

    /// The owners that an owner waits for; `None` if it does not wait.
    pub fn waits_of(&self, owner: &O) -> Option<WaitEdges<O>> {
        let place = self.waiters.iter().position(|w| w.owner == *owner)?;
        let own = &self.waiters[place];
        let ahead = || self.waiters.iter().take(place);
        let mut holders = Vec::new();
        for holder in self.holders() {
            let blocks = |waiter: &&RowLockWaiter<O, W>| {
                waiter.owner != holder.owner && !waiter.mode.joins(holder.mode)
            };
            let waiter = std::iter::once(own).chain(ahead()).find(blocks);
            holders.extend(waiter.map(|waiter| (waiter.owner.clone(), holder.owner.clone())));
        }
        Some(WaitEdges {
            ahead: ahead().map(|waiter| waiter.owner.clone()).collect(),
            holders,
        })
    }

    /// Releases the lock, whatever its mode.
    pub fn release(&mut self, owner: &O) {
        if self.first.as_ref().is_some_and(|h| h.owner == *owner) {
            self.first = self.more.pop();
            return;
        }
        if let Some(place) = self.more.iter().position(|h| h.owner == *owner) {
            self.more.swap_remove(place);
        }
    }

    /// Serves waiters in order until one does not fit. `admit` gets the owner and whether
    /// it held nothing before; if it returns false, the waiter is dropped.
    pub fn serve(
        &mut self,
        now_us: u64,
        mut admit: impl FnMut(&O, bool) -> bool,
        mut wake: impl FnMut(W),
    ) {
        while let Some(next) = self.waiters.front() {
            if !self.fits(&next.owner, next.mode) {
                return;
            }
            let Some(next) = self.waiters.pop_front() else {
                return;
            };
            if admit(&next.owner, !next.is_upgrade) {
                self.hold(&next.owner, next.mode, now_us);
                wake(next.wake);
            }
        }
    }

    /// Whether it has neither holders nor waiters.
    pub fn is_free(&self) -> bool {
        self.first.is_none() && self.waiters.is_empty()
    }

    /// All holders.
    pub fn holders(&self) -> impl Iterator<Item = &RowLockHolder<O>> {
        self.first.iter().chain(&self.more)
    }

    /// All waiters, in the order in which they will be served.
    pub fn waiters(&self) -> impl Iterator<Item = &RowLockWaiter<O, W>> {
        self.waiters.iter()
    }

    /// The mode that `owner` holds.
    pub fn mode_of(&self, owner: &O) -> Option<LockStrength> {
        let mine = self.holders().find(|holder| holder.owner == *owner);
        mine.map(|holder| holder.mode)
    }

    fn fits(&self, owner: &O, mode: LockStrength) -> bool {
        self.holders()
            .all(|holder| holder.owner == *owner || mode.joins(holder.mode))
    }

    fn hold(&mut self, owner: &O, mode: LockStrength, now_us: u64) {
        let mut all = self.first.iter_mut().chain(&mut self.more);
        if let Some(mine) = all.find(|holder| holder.owner == *owner) {
            mine.mode = mine.mode.max(mode);
            return;
        }
        let holder = RowLockHolder {
            owner: owner.clone(),
            mode,
            since_us: now_us,
        };
        match self.first {
            None => self.first = Some(holder),
            Some(_) => self.more.push(holder),
        }
    }
}

impl<O: Clone + PartialEq, W> Default for LockWord<O, W> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use LockStrength::{Exclusive, Shared, Update};

    type Plain = LockWord<u8, u8>;

    fn served(word: &mut Plain) -> Vec<u8> {
        let mut woken = Vec::new();
        word.serve(0, |_, _| true, |owner| woken.push(owner));
        woken
    }

    #[test]
    fn waiters_are_served_in_order_and_never_overtaken() {
        let mut word = Plain::new();
        assert_eq!(word.request(&1, Shared, 0), LockResponse::Granted);
        assert_eq!(word.request(&2, Exclusive, 0), LockResponse::Busy);
        word.wait(&2, Exclusive, 0, 2);
        assert_eq!(
            word.request(&3, Shared, 0),
            LockResponse::Busy,
            "no barging"
        );
        word.wait(&3, Shared, 0, 3);
        assert!(served(&mut word).is_empty());
        word.release(&1);
        assert_eq!(served(&mut word), [2]);
        word.release(&2);
        assert_eq!(served(&mut word), [3]);
        word.release(&3);
        assert!(word.is_free());
    }

    #[test]
    fn an_upgrade_goes_first() {
        let mut word = Plain::new();
        for owner in [1, 2] {
            assert_eq!(word.request(&owner, Shared, 0), LockResponse::Granted);
        }
        word.wait(&3, Exclusive, 0, 3);
        assert_eq!(word.request(&1, Exclusive, 0), LockResponse::Busy);
        word.wait(&1, Exclusive, 0, 1);
        word.release(&2);
        assert_eq!(served(&mut word), [1], "before owner 3, who came earlier");
    }

    #[test]
    fn the_only_holder_upgrades_past_waiters() {
        let mut word = Plain::new();
        word.request(&1, Update, 0);
        word.wait(&2, Shared, 0, 2);
        assert_eq!(word.request(&1, Exclusive, 0), LockResponse::Upgraded);
        assert_eq!(word.request(&1, Shared, 0), LockResponse::Held);
    }

    #[test]
    fn a_cancelled_waiter_lets_the_next_pass() {
        let mut word = Plain::new();
        word.request(&1, Shared, 0);
        let ticket = word.wait(&2, Exclusive, 0, 2);
        word.wait(&3, Shared, 0, 3);
        assert!(word.cancel(ticket));
        assert!(!word.cancel(ticket));
        assert_eq!(served(&mut word), [3]);
    }

    #[test]
    fn a_waiter_waits_for_those_before_it_and_for_holders_that_exclude_one_of_them() {
        let mut word = Plain::new();
        word.request(&1, Shared, 0);
        word.request(&2, Shared, 0);
        assert_eq!(word.waits_of(&1), None, "a holder does not wait");
        word.wait(&3, Exclusive, 0, 3);
        word.wait(&4, Shared, 0, 4);
        let waits = word.waits_of(&4).unwrap();
        assert_eq!(waits.ahead, [3]);
        assert_eq!(waits.holders, [(3, 1), (3, 2)], "readers exclude it not");
        // An upgrade waits before others, and for the other holder only.
        word.wait(&1, Exclusive, 0, 1);
        let waits = word.waits_of(&1).unwrap();
        assert_eq!((waits.ahead, waits.holders), (vec![], vec![(1, 2)]));
        assert_eq!(word.waits_of(&3).unwrap().ahead, [1]);
    }

    #[test]
    fn an_evicted_waiter_lets_the_next_pass_and_is_woken_by_its_evictor() {
        let mut word = Plain::new();
        word.request(&1, Shared, 0);
        word.wait(&2, Exclusive, 0, 12);
        word.wait(&3, Shared, 0, 13);
        assert_eq!(word.evict(&2), Some(12));
        assert_eq!(word.evict(&2), None);
        assert_eq!(word.evict(&1), None, "a holder does not wait");
        assert_eq!(served(&mut word), [13]);
    }

    #[test]
    fn a_refused_owner_is_passed_over() {
        let mut word = Plain::new();
        word.request(&1, Exclusive, 0);
        word.wait(&2, Exclusive, 0, 2);
        word.wait(&3, Exclusive, 0, 3);
        word.release(&1);
        let mut woken = Vec::new();
        word.serve(0, |owner, _| *owner != 2, |owner| woken.push(owner));
        assert_eq!(woken, [3]);
    }
}

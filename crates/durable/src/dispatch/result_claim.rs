//! Results of workers until they are committed.
//!
//! A worker may disconnect before its result is committed. Then the item is assigned
//! again.

use std::collections::BTreeMap;
use std::sync::Weak;

use super::entry::{DeliveredWork, EntryState, Key};
use super::token::DeliveryToken;
use super::work_queue::{State, WorkQueue};
use crate::command::Reply;
use crate::error::{ErrorKind, Result};
use crate::work::TurnResult;

/// An accepted result and its work item. If it is dropped before the commit is
/// confirmed, the item is assigned again.
pub(crate) struct ResultClaim {
    queue: Weak<WorkQueue>,
    key: Key,
    number: u64,
    given: DeliveredWork,
    /// Earlier parts of the result.
    chunks: BTreeMap<u32, TurnResult>,
    is_settled: bool,
}

/// How the commit of a result ended.
#[derive(Clone, Copy)]
enum ResultFate {
    Kept,
    /// The partition rejected it: it is overloaded or its disk is full.
    Unkept,
    Lost,
}

impl ResultClaim {
    /// The delivered work, and the earlier parts of the result.
    pub(crate) fn open(&mut self) -> (DeliveredWork, BTreeMap<u32, TurnResult>) {
        let given = std::mem::replace(&mut self.given, DeliveredWork::Activity);
        (given, std::mem::take(&mut self.chunks))
    }

    /// The result of a batch does not fit: the batch runs again with `most` operations.
    pub(crate) fn retry_with(mut self, most: usize) {
        self.is_settled = true;
        if let Some(desk) = self.queue.upgrade() {
            desk.retry(&self.key, self.number, most);
        }
    }

    /// Applies the partition's reply to the result.
    pub(crate) fn settle(mut self, said: &Result<Reply>) {
        self.is_settled = true;
        let fate = match said {
            Ok(_) => ResultFate::Kept,
            Err(error) if error.kind() == ErrorKind::Partition => ResultFate::Unkept,
            Err(_) => ResultFate::Lost,
        };
        if let Some(desk) = self.queue.upgrade() {
            desk.settle(&self.key, self.number, fate);
        }
    }
}

impl Drop for ResultClaim {
    fn drop(&mut self) {
        if !self.is_settled
            && let Some(desk) = self.queue.upgrade()
        {
            desk.settle(&self.key, self.number, ResultFate::Lost);
        }
    }
}

/// Requeues an activity if it is dropped before the result is committed; repeated
/// losses delay the activity.
pub(crate) struct AbandonGuard {
    queue: Weak<WorkQueue>,
    token: Option<DeliveryToken>,
}

impl AbandonGuard {
    pub(crate) fn disarm(mut self) {
        self.token = None;
    }
}

impl Drop for AbandonGuard {
    fn drop(&mut self) {
        if let (Some(desk), Some(token)) = (self.queue.upgrade(), &self.token) {
            desk.abandon(token);
        }
    }
}

impl WorkQueue {
    /// Accepts a result, if it is of the newest delivery.
    pub(crate) fn claim(&self, key: &Key, token: Option<&DeliveryToken>) -> Option<ResultClaim> {
        let mut state = self.state.lock();
        let State {
            entries,
            workers: seats,
            ..
        } = &mut *state;
        let entry = entries.get_mut(key)?;
        let is_meant = token.is_none_or(|token| entry.token() == *token);
        if !matches!(entry.state, EntryState::Assigned(_)) || !is_meant {
            return None;
        }
        let (given, chunks) = (entry.given.take()?, std::mem::take(&mut entry.chunks));
        self.free_worker(entry, seats);
        entry.state = EntryState::Committing;
        // A worker that returns a result was able to read the history.
        entry.is_long = false;
        let claim = ResultClaim {
            queue: self.me.clone(),
            key: key.clone(),
            number: entry.number,
            given,
            chunks,
            is_settled: false,
        };
        self.pump(&mut state);
        Some(claim)
    }

    fn settle(&self, key: &Key, number: u64, fate: ResultFate) {
        let mut state = self.state.lock();
        let entry = state.entries.get(key);
        if entry.is_none_or(|entry| entry.number != number) {
            return;
        }
        match fate {
            ResultFate::Kept => drop(state.entries.remove(key)),
            ResultFate::Unkept => self.try_later(&mut state, key),
            ResultFate::Lost => self.delivery_lost(&mut state, key),
        }
    }

    /// An execution has ended: drops its cached history.
    pub(crate) fn ended(&self, instance: &[u8]) {
        self.histories.forget(instance);
    }

    /// Runs a batch again with at most `most` operations.
    fn retry(&self, key: &Key, number: u64, most: usize) {
        let mut state = self.state.lock();
        let entry = state.entries.get_mut(key);
        if let Some(entry) = entry.filter(|entry| entry.number == number) {
            entry.most = Some(most.max(1));
            self.ready(&mut state, key);
        }
    }

    /// A worker was sent the first `count` events or operations only. Returns whether
    /// the item is still assigned to it.
    pub(crate) fn cut(&self, key: &Key, token: Option<&DeliveryToken>, count: usize) -> bool {
        let mut state = self.state.lock();
        let Some(entry) = state.entries.get_mut(key) else {
            return false;
        };
        let is_meant = token.is_none_or(|token| entry.token() == *token);
        match &mut entry.given {
            Some(DeliveredWork::Turn { taken, .. }) if is_meant => taken.truncate(count),
            Some(DeliveredWork::Batch { requests, .. }) if is_meant => requests.truncate(count),
            _ => return false,
        }
        true
    }

    /// A guard that abandons the item when it is dropped.
    pub(crate) fn abandon_guard(&self, token: DeliveryToken) -> AbandonGuard {
        AbandonGuard {
            queue: self.me.clone(),
            token: Some(token),
        }
    }
}

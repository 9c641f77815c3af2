//! Running attempts, and those queued for their host.
//!
//! Attempts to one host and port share a lane with a bounded number of calls. A lane
//! serves collections round-robin. Within a collection the attempt that waits longest and
//! the one that was due last alternate, so that a burst delays no job that is due after
//! it, even while attempts of the burst still arrive, and no job waits more than twice as
//! long as in the order of arrival. This module runs and spawns nothing: methods return
//! the attempts to start.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use bytes::Bytes;
use steadfast_core::id::Partition;
use steadfast_core::limits;
use steadfast_partition::Address;
use tokio::task::AbortHandle;

use crate::delivery_request::DeliveryRequest;

/// The partition of an attempt, and the id of its work row there.
pub(crate) type AttemptKey = (Partition, Bytes);

/// A requested attempt.
pub(crate) struct JobAttempt {
    pub(crate) ticket: AttemptKey,
    pub(crate) from: Address,
    pub(crate) order: DeliveryRequest,
}

#[derive(Default)]
pub(crate) struct HostLanes {
    by_host: HashMap<String, HostLane>,
    /// Running and waiting attempts.
    open: HashMap<AttemptKey, OpenAttempt>,
    /// No attempt is started: another node starts them, or this one later.
    is_resting: bool,
    /// Attempts held back since the pause, while this node may still resume.
    put_back: Option<Vec<JobAttempt>>,
}

#[derive(Default)]
struct HostLane {
    running: usize,
    /// Waiting attempts, by collection.
    waiting: HashMap<Bytes, Backlog>,
    /// The collections with waiting attempts, the next one first.
    turns: VecDeque<Bytes>,
}

/// The waiting attempts of one collection.
#[derive(Default)]
struct Backlog {
    /// In the order of arrival.
    attempts: BTreeMap<u64, JobAttempt>,
    /// By when they were due, then in the order of arrival.
    by_due: BTreeSet<(i64, u64)>,
    arrived: u64,
    /// Whether the attempt that was due last is next.
    is_newest_next: bool,
}

impl Backlog {
    fn push(&mut self, attempt: JobAttempt) {
        self.arrived += 1;
        let due = attempt.order.occurrence;
        self.by_due.insert((due, self.arrived));
        self.attempts.insert(self.arrived, attempt);
    }

    fn pop(&mut self) -> Option<JobAttempt> {
        let newest = self.by_due.last().map(|(_, number)| *number);
        let number = newest.filter(|_| self.is_newest_next);
        let number = number.or_else(|| self.attempts.keys().next().copied())?;
        self.is_newest_next = !self.is_newest_next;
        let attempt = self.attempts.remove(&number)?;
        self.by_due.remove(&(attempt.order.occurrence, number));
        Some(attempt)
    }

    fn remove(&mut self, ticket: &AttemptKey) {
        let by_due = &mut self.by_due;
        self.attempts.retain(|number, attempt| {
            let is_kept = attempt.ticket != *ticket;
            if !is_kept {
                by_due.remove(&(attempt.order.occurrence, *number));
            }
            is_kept
        });
    }
}

impl HostLane {
    fn push(&mut self, attempt: JobAttempt) {
        let collection = attempt.from.name.clone();
        let backlog = self.waiting.entry(collection.clone()).or_default();
        if backlog.attempts.is_empty() {
            self.turns.push_back(collection);
        }
        backlog.push(attempt);
    }

    /// Removes the next attempt.
    fn pop(&mut self) -> Option<JobAttempt> {
        let collection = self.turns.pop_front()?;
        let backlog = self.waiting.get_mut(&collection)?;
        let attempt = backlog.pop();
        if backlog.attempts.is_empty() {
            drop(self.waiting.remove(&collection))
        } else {
            self.turns.push_back(collection)
        }
        attempt
    }

    fn remove(&mut self, ticket: &AttemptKey) {
        for backlog in self.waiting.values_mut() {
            backlog.remove(ticket);
        }
        self.waiting
            .retain(|_, backlog| !backlog.attempts.is_empty());
        let waiting = &self.waiting;
        self.turns
            .retain(|collection| waiting.contains_key(collection));
    }

    /// Removes all waiting attempts.
    fn drain(&mut self) -> impl Iterator<Item = JobAttempt> {
        self.turns.clear();
        let waiting = std::mem::take(&mut self.waiting);
        waiting
            .into_values()
            .flat_map(|backlog| backlog.attempts.into_values())
    }
}

struct OpenAttempt {
    host: String,
    /// The tenure of its partition.
    epoch: u64,
    stage: AttemptStage,
    /// The same attempt, requested by a later tenure.
    next: Option<JobAttempt>,
}

enum AttemptStage {
    Waiting,
    /// The attempt is about to be started.
    Starting,
    Running(AbortHandle),
    /// The attempt is cancelled as soon as it has been started.
    Cancelled,
}

/// The attempts to start after the end of another.
pub(crate) struct NextAttempts {
    /// The same attempt, requested by a later tenure of its partition.
    pub(crate) next: Option<JobAttempt>,
    /// The next attempt of the lane.
    pub(crate) start: Option<JobAttempt>,
}

impl HostLanes {
    /// Enqueues an attempt; returns it if it is to be started now.
    pub(crate) fn enter(&mut self, host: String, attempt: JobAttempt) -> Option<JobAttempt> {
        if self.is_resting {
            if let Some(back) = &mut self.put_back {
                back.push(attempt);
            }
            return None;
        }
        let epoch = attempt.order.epoch;
        if let Some(open) = self.open.get_mut(&attempt.ticket) {
            if epoch > open.epoch {
                open.next = Some(attempt);
            }
            return None;
        }
        let lane = self.by_host.entry(host.clone()).or_default();
        let is_full = lane.running >= limits::HOST_CALLS;
        let open = OpenAttempt {
            host,
            epoch,
            stage: if is_full {
                AttemptStage::Waiting
            } else {
                AttemptStage::Starting
            },
            next: None,
        };
        self.open.insert(attempt.ticket.clone(), open);
        if is_full {
            lane.push(attempt);
            return None;
        }
        lane.running += 1;
        Some(attempt)
    }

    /// Records the start of an attempt; returns whether it is still requested.
    pub(crate) fn started(&mut self, ticket: &AttemptKey, task: AbortHandle) -> bool {
        match self.open.get_mut(ticket) {
            Some(open) if matches!(open.stage, AttemptStage::Cancelled) => false,
            Some(open) => {
                open.stage = AttemptStage::Running(task);
                true
            }
            // The attempt has ended already.
            None => true,
        }
    }

    /// Records the end of an attempt; returns the next of its host. `None` if it was
    /// cancelled before.
    pub(crate) fn leave(&mut self, ticket: &AttemptKey) -> Option<NextAttempts> {
        let open = self.open.remove(ticket)?;
        let next = open.next;
        let Some(lane) = self.by_host.get_mut(&open.host) else {
            return Some(NextAttempts { next, start: None });
        };
        let start = lane.pop();
        match &start {
            Some(start) => {
                if let Some(open) = self.open.get_mut(&start.ticket) {
                    open.stage = AttemptStage::Starting;
                }
            }
            None => {
                lane.running -= 1;
                if lane.running == 0 {
                    self.by_host.remove(&open.host);
                }
            }
        }
        Some(NextAttempts { next, start })
    }

    /// Cancels an attempt; returns its task if it is running.
    pub(crate) fn cancel(&mut self, ticket: &AttemptKey) -> Option<AbortHandle> {
        if let Some(back) = &mut self.put_back {
            back.retain(|attempt| attempt.ticket != *ticket);
        }
        let open = self.open.get_mut(ticket)?;
        open.next = None;
        match &open.stage {
            AttemptStage::Running(task) => return Some(task.clone()),
            AttemptStage::Starting | AttemptStage::Cancelled => {
                open.stage = AttemptStage::Cancelled
            }
            AttemptStage::Waiting => {
                if let Some(lane) = self.by_host.get_mut(&open.host) {
                    lane.remove(ticket);
                }
                self.open.remove(ticket);
            }
        }
        None
    }

    /// Stops starting attempts. Waiting attempts are kept for [`HostLanes::resume`].
    pub(crate) fn pause(&mut self) {
        self.is_resting = true;
        let back = self.put_back.get_or_insert_default();
        for lane in self.by_host.values_mut() {
            back.extend(lane.drain());
        }
        self.forget_waiting();
    }

    /// Stops starting attempts, and drops the waiting ones.
    pub(crate) fn stop(&mut self) {
        self.is_resting = true;
        self.put_back = None;
        for lane in self.by_host.values_mut() {
            drop(lane.drain());
        }
        self.forget_waiting();
    }

    fn forget_waiting(&mut self) {
        self.open
            .retain(|_, open| !matches!(open.stage, AttemptStage::Waiting));
    }

    /// Drops the attempts kept since the pause.
    pub(crate) fn forget(&mut self) {
        self.put_back = None;
    }

    /// Resumes; returns the attempts kept since the pause.
    pub(crate) fn resume(&mut self) -> Vec<JobAttempt> {
        self.is_resting = false;
        self.put_back.take().unwrap_or_default()
    }

    pub(crate) fn is_resting(&self) -> bool {
        self.is_resting
    }

    /// The number of running and waiting attempts.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::CollectionId;
    use crate::status::{OccurrenceSource, RunPhase};
    use steadfast_partition::ServiceKind;

    fn attempt(collection: &str, number: u32) -> JobAttempt {
        let id = CollectionId::new("sub", "rg", collection).unwrap();
        let name = number.to_string();
        JobAttempt {
            ticket: (Partition(0), format!("{collection}/{name}").into()),
            from: Address::new(ServiceKind(1), collection.to_owned(), name.clone()),
            order: DeliveryRequest {
                job: id.job(&name).unwrap(),
                occurrence: i64::from(number),
                source: OccurrenceSource::Schedule,
                ordinal: 1,
                phase: RunPhase::Main,
                attempt: 0,
                target: String::new(),
                timeout_ms: None,
                last: None,
                epoch: 1,
                is_once: false,
            },
        }
    }

    fn pop(lane: &mut HostLane) -> Option<(String, i64)> {
        let attempt = lane.pop()?;
        let collection = String::from_utf8_lossy(&attempt.from.name).into_owned();
        Some((collection, attempt.order.occurrence))
    }

    #[test]
    fn collections_take_turns_and_in_one_the_oldest_and_the_newest_do() {
        let mut lane = HostLane::default();
        for number in 0..4 {
            lane.push(attempt("a", number));
        }
        let a = |number| Some(("a".to_owned(), number));
        let b = |number| Some(("b".to_owned(), number));
        assert_eq!(pop(&mut lane), a(0));
        lane.push(attempt("b", 7));
        lane.push(attempt("a", 9));
        lane.push(attempt("b", 8));
        let found = [(); 7].map(|()| pop(&mut lane));
        assert_eq!(found, [a(9), b(7), a(1), b(8), a(3), a(2), None]);
        assert!(lane.waiting.is_empty() && lane.turns.is_empty());
    }

    #[test]
    fn one_that_is_due_last_is_next_though_a_burst_arrives_behind_it() {
        let mut lane = HostLane::default();
        for number in [0, 1, 99, 2, 3] {
            lane.push(attempt("a", number));
        }
        let found = [(); 6].map(|()| pop(&mut lane).map(|(_, number)| number));
        assert_eq!(found, [Some(0), Some(99), Some(1), Some(3), Some(2), None]);
    }

    #[test]
    fn what_is_taken_back_has_no_turn() {
        let mut lane = HostLane::default();
        for collection in ["a", "b", "c"] {
            lane.push(attempt(collection, 1));
        }
        lane.remove(&attempt("b", 1).ticket);
        assert_eq!(lane.drain().count(), 2);
        assert_eq!(pop(&mut lane), None);
    }
}

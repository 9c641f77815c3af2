//! Attempts under way, and those that wait for their host.
//!
//! Attempts to one host and port share a lane with a bounded number of calls. In a lane
//! the collections take turns. Of one collection the attempt that waits longest and the
//! one that was due last take turns, so that a burst delays no job that is due after it,
//! also while attempts of the burst still arrive, and no job waits longer than in the
//! order of arrival by more than a factor of two.
//! Nothing here runs or spawns anything: the caller gets what is to be started.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use bytes::Bytes;
use steadfast_core::id::Partition;
use steadfast_core::limits;
use steadfast_partition::Address;
use tokio::task::AbortHandle;

use crate::order::Order;

/// Where in the world an attempt is wanted, and its name there.
pub(crate) type Ticket = (Partition, Bytes);

/// An attempt that somebody wants.
pub(crate) struct Attempt {
    pub(crate) ticket: Ticket,
    pub(crate) from: Address,
    pub(crate) order: Order,
}

#[derive(Default)]
pub(crate) struct Lanes {
    by_host: HashMap<String, Lane>,
    /// What is under way or waits.
    open: HashMap<Ticket, Open>,
    /// Nothing is begun: another node does it, or this one later.
    is_resting: bool,
    /// What was not begun since, while it may be that this node goes on.
    put_back: Option<Vec<Attempt>>,
}

#[derive(Default)]
struct Lane {
    running: usize,
    /// What waits, by collection.
    waiting: HashMap<Bytes, Backlog>,
    /// The collections of what waits, the next one first.
    turns: VecDeque<Bytes>,
}

/// What waits of one collection.
#[derive(Default)]
struct Backlog {
    /// In the order of arrival.
    attempts: BTreeMap<u64, Attempt>,
    /// By when they were due, then in the order of arrival.
    by_due: BTreeSet<(i64, u64)>,
    arrived: u64,
    /// Whether the one that was due last is next.
    is_newest_next: bool,
}

impl Backlog {
    fn push(&mut self, attempt: Attempt) {
        self.arrived += 1;
        let due = attempt.order.occurrence;
        self.by_due.insert((due, self.arrived));
        self.attempts.insert(self.arrived, attempt);
    }

    fn pop(&mut self) -> Option<Attempt> {
        let newest = self.by_due.last().map(|(_, number)| *number);
        let number = newest.filter(|_| self.is_newest_next);
        let number = number.or_else(|| self.attempts.keys().next().copied())?;
        self.is_newest_next = !self.is_newest_next;
        let attempt = self.attempts.remove(&number)?;
        self.by_due.remove(&(attempt.order.occurrence, number));
        Some(attempt)
    }

    fn remove(&mut self, ticket: &Ticket) {
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

impl Lane {
    fn push(&mut self, attempt: Attempt) {
        let collection = attempt.from.name.clone();
        let backlog = self.waiting.entry(collection.clone()).or_default();
        if backlog.attempts.is_empty() {
            self.turns.push_back(collection);
        }
        backlog.push(attempt);
    }

    /// The attempt whose turn it is.
    fn pop(&mut self) -> Option<Attempt> {
        let collection = self.turns.pop_front()?;
        let backlog = self.waiting.get_mut(&collection)?;
        let attempt = backlog.pop();
        match backlog.attempts.is_empty() {
            true => drop(self.waiting.remove(&collection)),
            false => self.turns.push_back(collection),
        }
        attempt
    }

    fn remove(&mut self, ticket: &Ticket) {
        for backlog in self.waiting.values_mut() {
            backlog.remove(ticket);
        }
        self.waiting
            .retain(|_, backlog| !backlog.attempts.is_empty());
        let waiting = &self.waiting;
        self.turns
            .retain(|collection| waiting.contains_key(collection));
    }

    /// Everything that waits.
    fn drain(&mut self) -> impl Iterator<Item = Attempt> {
        self.turns.clear();
        let waiting = std::mem::take(&mut self.waiting);
        waiting
            .into_values()
            .flat_map(|backlog| backlog.attempts.into_values())
    }
}

struct Open {
    host: String,
    /// The tenure of its partition.
    epoch: u64,
    stage: Stage,
    /// The same, wanted by a later tenure.
    next: Option<Attempt>,
}

enum Stage {
    Waiting,
    /// It is about to be started.
    Starting,
    Running(AbortHandle),
    /// It is given up as soon as it has been started.
    Cancelled,
}

/// What follows the end of an attempt.
pub(crate) struct Left {
    /// The same attempt, wanted by a later tenure of its partition.
    pub(crate) next: Option<Attempt>,
    /// The one whose turn it is.
    pub(crate) start: Option<Attempt>,
}

impl Lanes {
    /// Takes an attempt in; answers it if it is to be started now.
    pub(crate) fn enter(&mut self, host: String, attempt: Attempt) -> Option<Attempt> {
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
        let open = Open {
            host,
            epoch,
            stage: match is_full {
                true => Stage::Waiting,
                false => Stage::Starting,
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

    /// An attempt was started; answers whether it is still wanted.
    pub(crate) fn started(&mut self, ticket: &Ticket, task: AbortHandle) -> bool {
        match self.open.get_mut(ticket) {
            Some(open) if matches!(open.stage, Stage::Cancelled) => false,
            Some(open) => {
                open.stage = Stage::Running(task);
                true
            }
            // It has ended already.
            None => true,
        }
    }

    /// An attempt has ended: the next of its host may begin. `None` if it was given up
    /// before.
    pub(crate) fn leave(&mut self, ticket: &Ticket) -> Option<Left> {
        let open = self.open.remove(ticket)?;
        let next = open.next;
        let Some(lane) = self.by_host.get_mut(&open.host) else {
            return Some(Left { next, start: None });
        };
        let start = lane.pop();
        match &start {
            Some(start) => {
                if let Some(open) = self.open.get_mut(&start.ticket) {
                    open.stage = Stage::Starting;
                }
            }
            None => {
                lane.running -= 1;
                if lane.running == 0 {
                    self.by_host.remove(&open.host);
                }
            }
        }
        Some(Left { next, start })
    }

    /// Gives an attempt up; answers its task if it runs.
    pub(crate) fn cancel(&mut self, ticket: &Ticket) -> Option<AbortHandle> {
        if let Some(back) = &mut self.put_back {
            back.retain(|attempt| attempt.ticket != *ticket);
        }
        let open = self.open.get_mut(ticket)?;
        open.next = None;
        match &open.stage {
            Stage::Running(task) => return Some(task.clone()),
            Stage::Starting | Stage::Cancelled => open.stage = Stage::Cancelled,
            Stage::Waiting => {
                if let Some(lane) = self.by_host.get_mut(&open.host) {
                    lane.remove(ticket);
                }
                self.open.remove(ticket);
            }
        }
        None
    }

    /// Begins nothing any more. What was not begun waits for [`Lanes::resume`].
    pub(crate) fn rest(&mut self) {
        self.is_resting = true;
        let back = self.put_back.get_or_insert_default();
        for lane in self.by_host.values_mut() {
            back.extend(lane.drain());
        }
        self.forget_waiting();
    }

    /// Begins nothing any more, and forgets what was not begun.
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
            .retain(|_, open| !matches!(open.stage, Stage::Waiting));
    }

    /// Forgets what was not begun since it rests.
    pub(crate) fn forget(&mut self) {
        self.put_back = None;
    }

    /// Begins again; answers what was not begun since it rests.
    pub(crate) fn resume(&mut self) -> Vec<Attempt> {
        self.is_resting = false;
        self.put_back.take().unwrap_or_default()
    }

    pub(crate) fn is_resting(&self) -> bool {
        self.is_resting
    }

    /// How many attempts are under way or wait for their turn.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::CollectionId;
    use crate::status::{Phase, Source};
    use steadfast_partition::Kind;

    fn attempt(collection: &str, number: u32) -> Attempt {
        let id = CollectionId::new("sub", "rg", collection).unwrap();
        let name = number.to_string();
        Attempt {
            ticket: (Partition(0), format!("{collection}/{name}").into()),
            from: Address::new(Kind(1), collection.to_owned(), name.clone()),
            order: Order {
                job: id.job(&name).unwrap(),
                occurrence: i64::from(number),
                source: Source::Schedule,
                ordinal: 1,
                phase: Phase::Main,
                attempt: 0,
                target: String::new(),
                timeout_ms: None,
                last: None,
                epoch: 1,
                is_once: false,
            },
        }
    }

    fn pop(lane: &mut Lane) -> Option<(String, i64)> {
        let attempt = lane.pop()?;
        let collection = String::from_utf8_lossy(&attempt.from.name).into_owned();
        Some((collection, attempt.order.occurrence))
    }

    #[test]
    fn collections_take_turns_and_in_one_the_oldest_and_the_newest_do() {
        let mut lane = Lane::default();
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
        let mut lane = Lane::default();
        for number in [0, 1, 99, 2, 3] {
            lane.push(attempt("a", number));
        }
        let found = [(); 6].map(|()| pop(&mut lane).map(|(_, number)| number));
        assert_eq!(found, [Some(0), Some(99), Some(1), Some(3), Some(2), None]);
    }

    #[test]
    fn what_is_taken_back_has_no_turn() {
        let mut lane = Lane::default();
        for collection in ["a", "b", "c"] {
            lane.push(attempt(collection, 1));
        }
        lane.remove(&attempt("b", 1).ticket);
        assert_eq!(lane.drain().count(), 2);
        assert_eq!(pop(&mut lane), None);
    }
}

//! Attempts under way, and those that wait for their host.
//!
//! Attempts to one host share a lane with a bounded number of calls. Nothing here runs
//! or spawns anything: whoever asks is told what to start.

use std::collections::{HashMap, VecDeque};

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
    waiting: VecDeque<Attempt>,
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
            lane.waiting.push_back(attempt);
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
        let start = lane.waiting.pop_front();
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
                    lane.waiting.retain(|attempt| attempt.ticket != *ticket);
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
            back.extend(lane.waiting.drain(..));
        }
        self.forget_waiting();
    }

    /// Begins nothing any more, and forgets what was not begun.
    pub(crate) fn stop(&mut self) {
        self.is_resting = true;
        self.put_back = None;
        for lane in self.by_host.values_mut() {
            lane.waiting.clear();
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

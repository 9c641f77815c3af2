//! One entry of a work queue.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::backoff::Backoff;
use steadfast_core::id::Partition;
use steadfast_partition::Address;

use super::token::DeliveryToken;
use crate::command::{OperationRequest, WorkRequest};
use crate::event::InstanceEvent;
use crate::id::EntityId;
use crate::moment::Moment;
use crate::work::TurnResult;

/// A partition, and the name of the work there.
pub(crate) type Key = (Partition, Bytes);

/// The three kinds of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum WorkKind {
    Turn,
    Activity,
    Batch,
}

/// The group of an entry, by which workers select work.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WorkGroup {
    pub(crate) sort: WorkKind,
    pub(crate) name: String,
    pub(crate) version: Option<String>,
    /// For an activity without a version: that of its orchestration.
    pub(crate) inherited: Option<String>,
    /// Workers that have just abandoned the entry, by id.
    pub(crate) declined_by: BTreeSet<u64>,
}

/// The shortest and the longest time for which an entry is not offered to a worker that
/// has abandoned it.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

pub(crate) struct Entry {
    /// Distinguishes the entry from older ones with the same key.
    pub(crate) number: u64,
    pub(crate) from: Address,
    pub(crate) instance: String,
    pub(crate) request: WorkRequest,
    pub(crate) group: WorkGroup,
    pub(crate) state: EntryState,
    /// Counts deliveries.
    pub(crate) attempt: u32,
    /// Deliveries in a row that were lost.
    pub(crate) lost: u32,
    /// How often its partition rejected a result or a read.
    unkept: u32,
    /// How often workers have abandoned it, by worker id.
    declined: BTreeMap<u64, u32>,
    /// The ids of workers that have no code for it.
    pub(crate) lacking: BTreeSet<u64>,
    /// How often in a row every worker has abandoned it.
    pub(crate) refusals: u32,
    /// Parts of a result received so far.
    pub(crate) chunks: BTreeMap<u32, TurnResult>,
    /// The work that was delivered to the worker.
    pub(crate) given: Option<DeliveredWork>,
    /// The worker requests the history with the item.
    pub(crate) is_whole: bool,
    /// It was sent with a history that may be too long for its worker.
    pub(crate) is_long: bool,
    /// The operation limit for the next delivery of a batch: results of more did not fit
    /// into one commit, or did not arrive.
    pub(crate) most: Option<usize>,
}

/// The state of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryState {
    /// In the queue of its group.
    Ready,
    /// Delayed.
    Delayed,
    /// Assigned to a worker.
    Assigned(u64),
    /// Its result is being committed.
    Committing,
}

/// The part of the delivered work that is needed for its result.
#[derive(Clone, Debug)]
pub(crate) enum DeliveredWork {
    Turn {
        execution: String,
        generation: u64,
        at: Moment,
        taken: Vec<InstanceEvent>,
    },
    Activity,
    Batch {
        generation: u64,
        /// The heads of the lanes at delivery.
        front: u64,
        main: u64,
        /// The requests, each with the heads of the lanes after it.
        requests: Vec<(OperationRequest, u64, u64)>,
    },
}

impl DeliveredWork {
    /// The number of operations of a batch.
    pub(crate) fn operations(&self) -> usize {
        match self {
            Self::Batch { requests, .. } => requests.len(),
            Self::Turn { .. } | Self::Activity => 0,
        }
    }
}

impl Entry {
    pub(crate) fn new(number: u64, from: Address, instance: String, request: WorkRequest) -> Self {
        Self {
            number,
            group: group(&instance, &request),
            from,
            instance,
            request,
            state: EntryState::Delayed,
            attempt: 0,
            lost: 0,
            unkept: 0,
            declined: BTreeMap::new(),
            lacking: BTreeSet::new(),
            refusals: 0,
            chunks: BTreeMap::new(),
            given: None,
            is_whole: false,
            is_long: false,
            most: None,
        }
    }

    /// Halves a batch whose result was lost: the result may exceed the size of one message.
    pub(crate) fn halve(&mut self) {
        if let Some(given @ DeliveredWork::Batch { .. }) = &self.given {
            self.most = Some(given.operations().div_ceil(2));
        }
    }

    /// A worker abandons it; returns for how long it is not offered to that worker, longer
    /// each time. Other workers may take it at once.
    pub(crate) fn decline(&mut self, seat: u64, is_here: impl Fn(&u64) -> bool) -> Duration {
        self.declined.retain(|seat, _| is_here(seat));
        self.group.declined_by.retain(is_here);
        self.group.declined_by.insert(seat);
        let times = self.declined.entry(seat).or_default();
        *times += 1;
        pause_after(*times)
    }

    /// Its partition rejected a result; returns the delay, longer each time.
    pub(crate) fn defer(&mut self) -> Duration {
        self.unkept += 1;
        pause_after(self.unkept)
    }

    /// A worker has no code for it.
    pub(crate) fn lacks_code(&mut self, seat: u64, is_here: impl Fn(&u64) -> bool) {
        self.lacking.retain(is_here);
        self.lacking.insert(seat);
    }

    /// Every worker has abandoned it; returns for how long it is offered to none of them,
    /// longer each time.
    pub(crate) fn refuse(&mut self) -> Duration {
        self.refusals += 1;
        pause_after(self.refusals)
    }

    /// Forgets which workers have abandoned it, because a new worker has connected.
    pub(crate) fn reconsider(&mut self) {
        self.refusals = 0;
        self.group.declined_by.clear();
    }

    /// The token of the current delivery.
    pub(crate) fn token(&self) -> DeliveryToken {
        match &self.request {
            WorkRequest::Activity(order) => DeliveryToken::Activity {
                execution: order.execution.clone(),
                number: order.number,
                attempt: self.attempt,
            },
            _ => DeliveryToken::Turn {
                number: self.number,
                attempt: self.attempt,
            },
        }
    }
}

fn pause_after(times: u32) -> Duration {
    Backoff::new(FIRST_PAUSE, LONGEST_PAUSE).after(times)
}

fn group(instance: &str, wish: &WorkRequest) -> WorkGroup {
    let mut inherited = None;
    let (sort, name, version) = match wish {
        WorkRequest::Turn { name, version, .. } => (WorkKind::Turn, name.clone(), version.clone()),
        WorkRequest::Activity(order) => {
            let task = &order.task;
            inherited = order.inherited.clone().filter(|_| task.version.is_none());
            (WorkKind::Activity, task.name.clone(), task.version.clone())
        }
        WorkRequest::Batch { .. }
        | WorkRequest::Changed
        | WorkRequest::Closed
        | WorkRequest::Answer { .. } => {
            let name = EntityId::parse(instance).map(|id| id.name().to_owned());
            (WorkKind::Batch, name.unwrap_or_default(), None)
        }
    };
    WorkGroup {
        sort,
        name,
        version,
        inherited,
        declined_by: BTreeSet::new(),
    }
}

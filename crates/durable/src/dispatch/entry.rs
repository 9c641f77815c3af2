//! One thing that a worker is wanted for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::id::Partition;
use steadfast_partition::Address;

use super::token::Token;
use crate::command::{Request, Wish};
use crate::event::Event;
use crate::id::EntityId;
use crate::moment::Moment;
use crate::work::TurnResult;

/// Where something is wanted, and its name there.
pub(crate) type Key = (Partition, Bytes);

/// The three sorts of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Sort {
    Turn,
    Activity,
    Batch,
}

/// What workers choose by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Group {
    pub(crate) sort: Sort,
    pub(crate) name: String,
    pub(crate) version: Option<String>,
    /// For an activity without a version: that of its orchestration.
    pub(crate) inherited: Option<String>,
    /// Workers that have given the entry back a moment ago, by their seats.
    pub(crate) declined_by: BTreeSet<u64>,
}

/// The first and the longest time for which an entry is not offered to a worker that
/// has given it back.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

pub(crate) struct Entry {
    /// Tells it from what was wanted under the same key before.
    pub(crate) number: u64,
    pub(crate) from: Address,
    pub(crate) instance: String,
    pub(crate) wish: Wish,
    pub(crate) group: Group,
    pub(crate) place: Place,
    /// Counts deliveries.
    pub(crate) attempt: u32,
    /// Deliveries in a row that were lost.
    pub(crate) lost: u32,
    /// How often its partition could not keep a result, or tell what a worker needs.
    unkept: u32,
    /// How often workers have given it back, by their seats.
    declined: BTreeMap<u64, u32>,
    /// Workers that have no code for it, by their seats.
    pub(crate) lacking: BTreeSet<u64>,
    /// How often in a row it was given back when every other worker had done so.
    pub(crate) refusals: u32,
    /// Parts of a result that came so far.
    pub(crate) chunks: BTreeMap<u32, TurnResult>,
    /// What the worker got.
    pub(crate) given: Option<Given>,
    /// The worker wants the history with the item.
    pub(crate) is_whole: bool,
    /// It was sent with a history that may be too long for its worker.
    pub(crate) is_long: bool,
    /// Operations that the next delivery of a batch has at most: the results of more
    /// did not fit into one commit, or did not arrive.
    pub(crate) most: Option<usize>,
}

/// Where an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the queue of its group.
    Ready,
    /// Nowhere until later.
    Resting,
    /// With a worker.
    Out(u64),
    /// Its result is being committed.
    Back,
}

/// What a worker got, as far as its result needs it.
#[derive(Clone, Debug)]
pub(crate) enum Given {
    Turn {
        execution: String,
        generation: u64,
        at: Moment,
        taken: Vec<Event>,
    },
    Activity,
    Batch {
        generation: u64,
        /// Where the lanes began.
        front: u64,
        main: u64,
        /// The requests, and where their lanes begin behind each.
        requests: Vec<(Request, u64, u64)>,
    },
}

impl Given {
    /// How many operations a batch has.
    pub(crate) fn operations(&self) -> usize {
        match self {
            Self::Batch { requests, .. } => requests.len(),
            Self::Turn { .. } | Self::Activity => 0,
        }
    }
}

impl Entry {
    pub(crate) fn new(number: u64, from: Address, instance: String, wish: Wish) -> Self {
        Self {
            number,
            group: group(&instance, &wish),
            from,
            instance,
            wish,
            place: Place::Resting,
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

    /// Halves a batch whose worker did not bring it back: its results may be more than
    /// one message takes.
    pub(crate) fn halve(&mut self) {
        if let Some(given @ Given::Batch { .. }) = &self.given {
            self.most = Some(given.operations().div_ceil(2));
        }
    }

    /// A worker gives it back; answers for how long it is not offered to that worker,
    /// longer each time. Others may take it at once.
    pub(crate) fn decline(&mut self, seat: u64, is_here: impl Fn(&u64) -> bool) -> Duration {
        self.declined.retain(|seat, _| is_here(seat));
        self.group.declined_by.retain(is_here);
        self.group.declined_by.insert(seat);
        let times = self.declined.entry(seat).or_default();
        *times += 1;
        pause_after(*times)
    }

    /// Its partition could not keep a result; answers for how long it rests, longer each
    /// time.
    pub(crate) fn defer(&mut self) -> Duration {
        self.unkept += 1;
        pause_after(self.unkept)
    }

    /// A worker has no code for it.
    pub(crate) fn lacks_code(&mut self, seat: u64, is_here: impl Fn(&u64) -> bool) {
        self.lacking.retain(is_here);
        self.lacking.insert(seat);
    }

    /// Every worker has given it back; answers for how long it is offered to none of
    /// them, longer each time.
    pub(crate) fn refuse(&mut self) -> Duration {
        self.refusals += 1;
        pause_after(self.refusals)
    }

    /// Forgets that every worker has given it back: there is another one.
    pub(crate) fn reconsider(&mut self) {
        self.refusals = 0;
        self.group.declined_by.clear();
    }

    /// The name of the delivery under way.
    pub(crate) fn token(&self) -> Token {
        match &self.wish {
            Wish::Activity(order) => Token::Activity {
                execution: order.execution.clone(),
                number: order.number,
                attempt: self.attempt,
            },
            _ => Token::Turn {
                number: self.number,
                attempt: self.attempt,
            },
        }
    }
}

fn pause_after(times: u32) -> Duration {
    let pause = FIRST_PAUSE * 2u32.saturating_pow(times.saturating_sub(1).min(16));
    pause.min(LONGEST_PAUSE)
}

fn group(instance: &str, wish: &Wish) -> Group {
    let mut inherited = None;
    let (sort, name, version) = match wish {
        Wish::Turn { name, version, .. } => (Sort::Turn, name.clone(), version.clone()),
        Wish::Activity(order) => {
            let task = &order.task;
            inherited = order.inherited.clone().filter(|_| task.version.is_none());
            (Sort::Activity, task.name.clone(), task.version.clone())
        }
        Wish::Batch { .. } | Wish::Changed | Wish::Closed | Wish::Answer { .. } => {
            let name = EntityId::parse(instance).map(|id| id.name().to_owned());
            (Sort::Batch, name.unwrap_or_default(), None)
        }
    };
    Group {
        sort,
        name,
        version,
        inherited,
        declined_by: BTreeSet::new(),
    }
}

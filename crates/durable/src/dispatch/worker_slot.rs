//! Connected workers of a work queue.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use steadfast_core::clock::Timestamp;
use steadfast_core::limits;
use tokio::sync::mpsc;

use super::counts::WorkCounts;
use super::entry::{WorkGroup, WorkKind};
use super::peer_messages::{PackedOptions, WorkerRecord};
use crate::inline::InlineExecutor;
use crate::work::{HistoryPosition, WorkDelivery, WorkFilter, WorkFilters, WorkerOptions};

/// The ids of a worker at other nodes, by node.
pub(crate) type RelaySeats = Arc<Mutex<BTreeMap<String, u64>>>;

/// A connected worker of a work queue.
pub(crate) struct WorkerSlot {
    name: String,
    address: Option<String>,
    since: Timestamp,
    /// Its id here, if it is connected to another node.
    guest: Option<u64>,
    seats: RelaySeats,
    filters: Option<WorkFilters>,
    most: [usize; 3],
    busy: [usize; 3],
    memory: WorkerMemory,
    /// Delivers its items, never more than it takes at a time.
    sender: mpsc::UnboundedSender<WorkDelivery>,
}

/// Which instances a worker has in memory.
#[derive(Clone)]
pub(crate) enum WorkerMemory {
    Nothing,
    /// The worker is in this process and can be queried.
    Known(Arc<dyn InlineExecutor>),
    /// The worker says that it keeps the instances that it ran last. It requests the history
    /// of one that it has dropped.
    Presumed,
}

/// The worker that an item is read for.
pub(crate) struct Recipient {
    pub(crate) sender: mpsc::UnboundedSender<WorkDelivery>,
    memory: WorkerMemory,
}

impl Recipient {
    /// Whether the worker needs no history of this execution.
    pub(crate) fn remembers(&self, instance: &str, execution: &str, past: HistoryPosition) -> bool {
        match &self.memory {
            WorkerMemory::Nothing => false,
            WorkerMemory::Known(operator) => operator.remembers(instance, execution, past),
            WorkerMemory::Presumed => past.events > 0,
        }
    }
}

impl WorkerSlot {
    pub(super) fn new(
        terms: WorkerOptions,
        since: Timestamp,
        sender: mpsc::UnboundedSender<WorkDelivery>,
    ) -> Self {
        let most = [terms.turns, terms.activities, terms.batches];
        let most = most.map(|most| match most {
            0 => limits::WORKER_ITEMS,
            most => most,
        });
        tracing::debug!(
            event = "durable.worker_joined",
            worker = terms.name,
            "a worker connected",
        );
        Self {
            name: terms.name,
            address: terms.address,
            since,
            guest: None,
            seats: RelaySeats::default(),
            filters: terms.filters,
            most,
            busy: [0; 3],
            memory: if terms.caches_instances {
                WorkerMemory::Presumed
            } else {
                WorkerMemory::Nothing
            },
            sender,
        }
    }

    /// Marks it as the worker of another node, with its id here.
    pub(super) fn of_peer(self, seat: u64) -> Self {
        Self {
            guest: Some(seat),
            ..self
        }
    }

    /// Its ids at other nodes, for the task that relays their items.
    pub(super) fn seats(&self) -> RelaySeats {
        Arc::clone(&self.seats)
    }

    /// Its id here, if it is connected to another node.
    pub(super) fn guest(&self) -> Option<u64> {
        self.guest
    }

    /// Items of this queue that it has.
    pub(super) fn in_progress(&self) -> WorkCounts {
        WorkCounts::from(self.busy)
    }

    /// The worker as operators see it.
    pub(super) fn record(&self, number: u64) -> WorkerRecord {
        let [turns, activities, batches] = self.most;
        let options = WorkerOptions {
            name: self.name.clone(),
            turns,
            activities,
            batches,
            filters: self.filters.clone(),
            ..WorkerOptions::default()
        };
        WorkerRecord {
            number,
            options: PackedOptions::from(&options),
            address: self.address.clone(),
            since: self.since.0,
            in_progress: self.in_progress(),
            seats: self.seats.lock().values().copied().collect(),
        }
    }

    /// Declares that the worker is in this process and can be queried.
    pub(crate) fn remember(&mut self, operator: Arc<dyn InlineExecutor>) {
        self.memory = WorkerMemory::Known(operator);
    }

    /// This worker as the recipient of an item. A whole item contains what the worker may
    /// remember; `had_it`: it was also the last worker to have the instance.
    pub(crate) fn recipient(&self, is_whole: bool, had_it: bool) -> Recipient {
        let memory = match &self.memory {
            _ if is_whole => WorkerMemory::Nothing,
            WorkerMemory::Presumed if !had_it => WorkerMemory::Nothing,
            memory => memory.clone(),
        };
        Recipient {
            sender: self.sender.clone(),
            memory,
        }
    }

    /// Whether the worker takes one more item of this group.
    pub(crate) fn takes(&self, group: &WorkGroup) -> bool {
        let place = group.sort as usize;
        self.busy[place] < self.most[place] && self.knows(group)
    }

    /// Whether the worker has code for this group.
    pub(crate) fn knows(&self, group: &WorkGroup) -> bool {
        let Some(filters) = &self.filters else {
            return true;
        };
        let is_listed = |list: &[WorkFilter]| {
            let (name, version) = (&group.name, group.version.as_deref());
            let inherited = group.inherited.as_deref();
            list.iter().any(|filter| {
                filter.fits(name, version)
                    || inherited.is_some_and(|version| filter.fits(name, Some(version)))
            })
        };
        match group.sort {
            WorkKind::Turn => is_listed(&filters.orchestrations),
            WorkKind::Activity => is_listed(&filters.activities),
            WorkKind::Batch => filters.entities.contains(&group.name),
        }
    }

    pub(crate) fn take(&mut self, sort: WorkKind) {
        self.busy[sort as usize] += 1;
    }

    pub(crate) fn free(&mut self, sort: WorkKind) {
        let busy = &mut self.busy[sort as usize];
        *busy = busy.saturating_sub(1);
    }
}

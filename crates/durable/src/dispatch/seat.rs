//! Connected workers of a work queue.

use std::sync::Arc;

use steadfast_core::limits;
use tokio::sync::mpsc;

use super::entry::{Group, Sort};
use crate::aide::Operator;
use crate::work::{Filter, Filters, Item, Past, Terms};

/// A connected worker of a work queue.
pub(crate) struct Seat {
    filters: Option<Filters>,
    most: [usize; 3],
    busy: [usize; 3],
    memory: Memory,
    /// Delivers its items, never more than it takes at a time.
    sender: mpsc::UnboundedSender<Item>,
}

/// Which instances a worker has in memory.
#[derive(Clone)]
pub(crate) enum Memory {
    Nothing,
    /// The worker is in this process and can be queried.
    Known(Arc<dyn Operator>),
    /// The worker says that it keeps the instances that it ran last. It requests the history
    /// of one that it has dropped.
    Presumed,
}

/// The worker that an item is read for.
pub(crate) struct Recipient {
    pub(crate) sender: mpsc::UnboundedSender<Item>,
    memory: Memory,
}

impl Recipient {
    /// Whether it does not need the history of this execution.
    pub(crate) fn remembers(&self, instance: &str, execution: &str, past: Past) -> bool {
        match &self.memory {
            Memory::Nothing => false,
            Memory::Known(operator) => operator.remembers(instance, execution, past),
            Memory::Presumed => past.events > 0,
        }
    }
}

impl Seat {
    pub(super) fn new(terms: Terms, sender: mpsc::UnboundedSender<Item>) -> Self {
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
            filters: terms.filters,
            most,
            busy: [0; 3],
            memory: match terms.is_mindful {
                true => Memory::Presumed,
                false => Memory::Nothing,
            },
            sender,
        }
    }

    /// Declares that it is in this process and can be queried.
    pub(crate) fn remember(&mut self, operator: Arc<dyn Operator>) {
        self.memory = Memory::Known(operator);
    }

    /// This worker as the recipient of an item. A whole item contains what the worker may
    /// remember; `had_it`: it was also the last worker to have the instance.
    pub(crate) fn recipient(&self, is_whole: bool, had_it: bool) -> Recipient {
        let memory = match &self.memory {
            _ if is_whole => Memory::Nothing,
            Memory::Presumed if !had_it => Memory::Nothing,
            memory => memory.clone(),
        };
        Recipient {
            sender: self.sender.clone(),
            memory,
        }
    }

    /// Whether it takes one more of this group.
    pub(crate) fn takes(&self, group: &Group) -> bool {
        let place = group.sort as usize;
        self.busy[place] < self.most[place] && self.knows(group)
    }

    /// Whether it has code for this group.
    pub(crate) fn knows(&self, group: &Group) -> bool {
        let Some(filters) = &self.filters else {
            return true;
        };
        let is_listed = |list: &[Filter]| {
            let (name, version) = (&group.name, group.version.as_deref());
            let inherited = group.inherited.as_deref();
            list.iter().any(|filter| {
                filter.fits(name, version)
                    || inherited.is_some_and(|version| filter.fits(name, Some(version)))
            })
        };
        match group.sort {
            Sort::Turn => is_listed(&filters.orchestrations),
            Sort::Activity => is_listed(&filters.activities),
            Sort::Batch => filters.entities.contains(&group.name),
        }
    }

    pub(crate) fn take(&mut self, sort: Sort) {
        self.busy[sort as usize] += 1;
    }

    pub(crate) fn free(&mut self, sort: Sort) {
        let busy = &mut self.busy[sort as usize];
        *busy = busy.saturating_sub(1);
    }
}

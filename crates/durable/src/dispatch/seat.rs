//! Workers as the desk sees them.

use std::sync::Arc;

use steadfast_core::limits;
use tokio::sync::mpsc;

use super::entry::{Group, Sort};
use crate::aide::Operator;
use crate::work::{Filter, Filters, Item, Terms};

/// A worker as the desk sees it.
pub(crate) struct Seat {
    filters: Option<Filters>,
    most: [usize; 3],
    busy: [usize; 3],
    /// What it remembers of instances, if it is in this process.
    pub(crate) memory: Option<Arc<dyn Operator>>,
    /// What it is given; never more than it takes at a time.
    sender: mpsc::UnboundedSender<Item>,
}

/// Whom an item is read for.
pub(crate) struct Recipient {
    pub(crate) sender: mpsc::UnboundedSender<Item>,
    /// What it remembers, unless it wants everything.
    pub(crate) memory: Option<Arc<dyn Operator>>,
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
            "a worker has come",
        );
        Self {
            filters: terms.filters,
            most,
            busy: [0; 3],
            memory: None,
            sender,
        }
    }

    /// Whoever sits here, for an item with everything in it or without what is
    /// remembered.
    pub(crate) fn recipient(&self, is_whole: bool) -> Recipient {
        Recipient {
            sender: self.sender.clone(),
            memory: self.memory.clone().filter(|_| !is_whole),
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
            let version = group.version.as_deref();
            list.iter().any(|filter| filter.fits(&group.name, version))
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

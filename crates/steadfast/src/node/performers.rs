//! Who does what services want done outside.

use std::collections::BTreeMap;
use std::sync::Arc;

use steadfast_partition::{Effect, Idle, Kind, Performer};

/// Performers, by the kind of the instance that wants something done.
#[derive(Clone, Default)]
pub(super) struct Performers {
    by_kind: BTreeMap<Kind, Arc<dyn Performer>>,
}

impl Performer for Performers {
    fn perform(&self, effect: Effect) {
        match self.by_kind.get(&effect.from.kind) {
            Some(performer) => performer.perform(effect),
            None => Idle.perform(effect),
        }
    }
}
